// Aligns objects linked after it to a page boundary: code, constants and variables. Whatever is linked before it then
// moves that by whole pages, so that everything keeps its place within cache lines and within the sets of the first
// cache.

#define PAGE 4096

__attribute__((aligned(PAGE))) void page_boundary_of_code(void);

void page_boundary_of_code(void) {}

const char page_boundary_of_constants __attribute__((aligned(PAGE))) = 1;
char       page_boundary_of_variables __attribute__((aligned(PAGE))) = 1;
char       page_boundary_of_zeros __attribute__((aligned(PAGE)));
