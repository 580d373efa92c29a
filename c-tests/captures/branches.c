// Captures graphs with many branches, in which the order of the nodes matters for the memory that they need.

#include "branches/googlenet.h"
#include "branches/mixture.h"
#include "branches/random_wiring.h"
#include "options.h"

#define PROGRAM "branches"

static const char usage[] =
    "usage: branches GRAPH.jsonl [options]\n"
    "Writes the graph of a network with many branches.\n"
    "  --network NAME   googlenet      nine modules of four branches each (default)\n"
    "                   mixture        experts one after another\n"
    "                   mixture-wide   the same experts side by side\n"
    "                   random-wiring  convolutions wired at random\n"
    "  --help           this text\n";

enum { MAX_NODES = 4096 };

static struct ggml_tensor * build(const struct new_graph * g, const char * network) {
    if (strcmp(network, "googlenet") == 0) {
        return build_googlenet(g);
    }
    if (strcmp(network, "mixture") == 0 || strcmp(network, "mixture-wide") == 0) {
        return build_mixture(g, strcmp(network, "mixture-wide") == 0);
    }
    return strcmp(network, "random-wiring") == 0 ? build_random_wiring(g) : NULL;
}

int main(int argc, char ** argv) {
    const char * out = NULL;
    const char * network = "googlenet";
    const struct option_spec options[] = { { "--network", NULL, 0, 0, &network } };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &out)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    struct new_graph g = new_graph(MAX_NODES, false);
    struct ggml_tensor * output = build(&g, network);
    if (output == NULL) {
        fprintf(stderr, PROGRAM ": the network '%s' is not known\n", network);
        return EXIT_USAGE;
    }
    new_graph_output(&g, output, "output");
    char label[64];
    snprintf(label, sizeof(label), "branches: %s", network);
    capture_new_graph(&g, out, label);
    return EXIT_SUCCESS;
}
