// Captures the graphs of Stable Diffusion's networks, at their real sizes: the UNets of versions 1 and XL, and the
// decoder of the autoencoder. The architecture is the published one; the code is ours.

#include "diffusion/unet.h"
#include "diffusion/vae_decoder.h"
#include "options.h"

#define PROGRAM "diffusion"

struct settings {
    const char * out;
    const char * network;
    const char * flash;
    long long    image;
};

static const char usage[] =
    "usage: diffusion GRAPH.jsonl [options]\n"
    "Writes the graph of one step of a network of Stable Diffusion.\n"
    "  --network NAME   sd1-unet, sdxl-unet or vae-decoder          (default sd1-unet)\n"
    "  --image N        side of the image in pixels, in units of 64 (default 512)\n"
    "  --flash on|off   flash attention                             (default off)\n"
    "  --help           this text\n";

enum { MAX_NODES = 16384, PIXELS_PER_LATENT = 8 };

static struct ggml_tensor * build(const struct new_graph * g, const struct settings * settings) {
    const int64_t size = settings->image / PIXELS_PER_LATENT;
    const bool    flash = strcmp(settings->flash, "on") == 0;
    if (strcmp(settings->network, "sd1-unet") == 0) {
        return build_unet(g, &sd1_unet, size, flash);
    }
    if (strcmp(settings->network, "sdxl-unet") == 0) {
        return build_unet(g, &sdxl_unet, size, flash);
    }
    return strcmp(settings->network, "vae-decoder") == 0 ? build_vae_decoder(g, size, flash) : NULL;
}

static int capture(const struct settings * settings) {
    struct new_graph g = new_graph(MAX_NODES, false);
    struct ggml_tensor * output = build(&g, settings);
    if (output == NULL) {
        fprintf(stderr, PROGRAM ": the network '%s' is not known\n", settings->network);
        return EXIT_USAGE;
    }
    new_graph_output(&g, output, "output");
    char label[128];
    snprintf(label, sizeof(label), "stable diffusion %s: %lld x %lld pixels, %s attention", settings->network,
             settings->image, settings->image, strcmp(settings->flash, "on") == 0 ? "flash" : "softmax");
    capture_new_graph(&g, settings->out, label);
    return EXIT_SUCCESS;
}

int main(int argc, char ** argv) {
    struct settings settings = { .network = "sd1-unet", .flash = "off", .image = 512 };
    const struct option_spec options[] = {
        { "--network", NULL,            0,  0,    &settings.network },
        { "--flash",   NULL,            0,  0,    &settings.flash   },
        { "--image",   &settings.image, 64, 4096, NULL              },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.out)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    if (settings.image % 64 != 0) {
        fprintf(stderr, PROGRAM ": --image needs a multiple of 64, not %lld\n", settings.image);
        return EXIT_USAGE;
    }
    return capture(&settings);
}
