#include "cases.h"

static struct test_case *  first;
static struct test_case ** last = &first;

void list_case(struct test_case * listed) {
    *last = listed;
    last  = &listed->next;
}

long long case_number(struct case_args args, int index, long long otherwise) {
    if (index >= args.count) {
        return otherwise;
    }
    char *    end   = NULL;
    long long value = strtoll(args.texts[index], &end, 10);
    CHECK(end != args.texts[index] && *end == '\0', "argument %d is not a number: %s", index, args.texts[index]);
    return value;
}

struct seeds seeds_from(struct case_args args, long long count) {
    return (struct seeds){ .first = case_number(args, 0, 1), .count = case_number(args, 1, count) };
}

int main(int argc, char ** argv) {
    for (struct test_case * it = first; argc > 1 && it != NULL; it = it->next) {
        if (strcmp(argv[1], it->name) == 0) {
            it->run((struct case_args){ .count = argc - 2, .texts = argv + 2 });
            printf("ok %s\n", it->name);
            return 0;
        }
    }
    for (struct test_case * it = first; it != NULL; it = it->next) {
        printf("%s\n", it->name);
    }
    return 2;
}
