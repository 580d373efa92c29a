// Asks for records where ggml's own allocator does the work.

#include <string.h>

#include "check.h"
#include "ggml-backend.h"
#include "lastuse.h"

int main(void) {
    struct lastuse_stats stats = { .struct_size = sizeof(stats), .plans = 42 };
    CHECK(ggml_backend_buft_name(ggml_backend_cpu_buffer_type()) != NULL, "ggml is there");
    CHECK(!lastuse_enabled(), "LASTUSE is not off");
    CHECK(!lastuse_stats_report(&stats), "there are no statistics");
    CHECK(stats.plans == 42, "%d plans are written", (int) stats.plans);
    CHECK(!lastuse_set("capture", "/tmp"), "no graphs are written");
    CHECK(strstr(lastuse_last_error(), "ggml's own allocator does the work") != NULL, "%s", lastuse_last_error());
    CHECK(!(lastuse_set("dump_dir", "/tmp") && lastuse_set("dump", "*")), "no values are written");
    CHECK(strstr(lastuse_last_error(), "ggml's own allocator does the work") != NULL, "%s", lastuse_last_error());
    return 0;
}
