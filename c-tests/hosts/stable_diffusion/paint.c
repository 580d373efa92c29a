// Makes images with stable-diffusion.cpp from texts and from images, or enlarges images, and writes all of them to a
// file. Prints the speed.

#define _POSIX_C_SOURCE 200809L

#include "options.h"
#include "processor_clock.h"
#include "splitmix.h"

#include "stable-diffusion.h"

#include <sys/resource.h>

#define PROGRAM "paint"

enum { MAX_SIZES = 8, COLORS = 3 };

struct settings {
    const char * model;
    const char * out;
    const char * sizes;
    const char * tiny;
    const char * upscaler;
    const char * flash;
    const char * tiles;
    const char * direct;
    const char * from_image;
    long long    steps;
    long long    tile;
    long long    batch;
    long long    threads;
    long long    seed;
};

struct size {
    int width;
    int height;
};

struct session {
    const struct settings * settings;
    struct size             sizes[MAX_SIZES];
    int                     n_sizes;
    FILE *                  file;
    int                     images;
    bool                    failed;
};

static const char usage[] =
    "usage: paint MODEL --out FILE [options]\n"
    "Makes images, one for each size, writes them to a file and prints the speed.\n"
    "  --out FILE          where the images go, as bytes of red, green and blue\n"
    "  --sizes WxH,...     sizes of the images                          (default 64x64)\n"
    "  --upscaler on|off   MODEL enlarges images of random colors       (default off)\n"
    "  --from-image on|off starts from images of random colors          (default off)\n"
    "  --tiny FILE         a tiny autoencoder instead of the model's\n"
    "  --steps N           steps of denoising                           (default 1)\n"
    "  --batch N           images of each size                          (default 1)\n"
    "  --flash on|off      flash attention                              (default off)\n"
    "  --direct on|off     convolutions without im2col                  (default off)\n"
    "  --tiles on|off      autoencoder or upscaler work on tiles        (default off)\n"
    "  --tile N            size of a tile: latent, of the upscaler in pixels (default 4)\n"
    "  --threads N         compute threads                              (default 2)\n"
    "  --seed N            seed of noise and colors                     (default 1)\n"
    "  --help              this text\n";

static bool is_on(const char * value) {
    return strcmp(value, "on") == 0;
}

static void log_errors(enum sd_log_level_t level, const char * text, void * data) {
    (void) data;
    if (level == SD_LOG_ERROR) {
        fputs(text, stderr);
    }
}

static void no_progress(int step, int steps, float time, void * data) {
    (void) step, (void) steps, (void) time, (void) data;
}

static bool parse_sizes(struct session * session) {
    const char * text = session->settings->sizes;
    while (*text != '\0' && session->n_sizes < MAX_SIZES) {
        int used = 0;
        struct size * size = &session->sizes[session->n_sizes];
        if (sscanf(text, "%dx%d%n", &size->width, &size->height, &used) != 2 || size->width <= 0 || size->height <= 0) {
            break;
        }
        session->n_sizes++;
        text += used;
        text += *text == ',';
    }
    if (*text == '\0' && session->n_sizes > 0) {
        return true;
    }
    fprintf(stderr, PROGRAM ": --sizes needs at most %d sizes such as 64x64,128x96, not '%s'\n", MAX_SIZES,
            session->settings->sizes);
    return false;
}

// Large patches of random colors. The caller frees the data.
static sd_image_t random_image(struct size size, uint64_t seed) {
    sd_image_t image = { (uint32_t) size.width, (uint32_t) size.height, COLORS, NULL };
    image.data = malloc((size_t) size.width * (size_t) size.height * COLORS);
    if (image.data == NULL) {
        fprintf(stderr, PROGRAM ": no memory for an image\n");
        abort();
    }
    uint8_t patches[64][COLORS];
    for (int i = 0; i < 64 * COLORS; i++) {
        patches[i / COLORS][i % COLORS] = (uint8_t) splitmix64(&seed);
    }
    for (int y = 0; y < size.height; y++) {
        for (int x = 0; x < size.width; x++) {
            const int patch = y * 8 / size.height * 8 + x * 8 / size.width;
            for (int c = 0; c < COLORS; c++) {
                const uint8_t noise = (uint8_t) (splitmix64(&seed) % 16);
                image.data[((size_t) y * (size_t) size.width + (size_t) x) * COLORS + (size_t) c] =
                    (uint8_t) (patches[patch][c] / 16 * 15 + noise);
            }
        }
    }
    return image;
}

// An image of few colors says little about the computation, which a dry run leaves out.
static bool is_varied(const sd_image_t * image) {
    const size_t bytes = (size_t) image->width * image->height * image->channel;
    bool   seen[256] = { false };
    int    values    = 0;
    for (size_t i = 0; i < bytes; i++) {
        values += !seen[image->data[i]];
        seen[image->data[i]] = true;
    }
    if (getenv("LASTUSE_MEASURE") != NULL) {
        return true;
    }
    if (values < 64) {
        fprintf(stderr, PROGRAM ": an image has %d values only, so there is nothing to compare\n", values);
    }
    return values >= 64;
}

static bool take_image(struct session * session, const sd_image_t * image) {
    if (image->data == NULL) {
        fprintf(stderr, PROGRAM ": no image was made\n");
        return false;
    }
    const uint32_t sizes[] = { image->width, image->height, image->channel };
    const size_t   bytes   = (size_t) image->width * image->height * image->channel;
    session->failed |= fwrite(sizes, sizeof(sizes), 1, session->file) != 1;
    session->failed |= fwrite(image->data, 1, bytes, session->file) != bytes;
    session->images++;
    return is_varied(image);
}

static bool enlarge(struct session * session, upscaler_ctx_t * upscaler) {
    for (int i = 0; i < session->n_sizes; i++) {
        sd_image_t small = random_image(session->sizes[i], (uint64_t) (session->settings->seed + i));
        sd_image_t large = upscale(upscaler, small, (uint32_t) get_upscale_factor(upscaler));
        const bool taken = take_image(session, &large);
        free(small.data);
        free(large.data);
        if (!taken) {
            return false;
        }
    }
    return true;
}

static bool run_upscaler(struct session * session, double * seconds) {
    const struct settings * settings = session->settings;
    const int tile = is_on(settings->tiles) ? (int) settings->tile : 0;
    upscaler_ctx_t * upscaler = new_upscaler_ctx(settings->model, is_on(settings->direct), (int) settings->threads, tile,
                                                 NULL, NULL);
    if (upscaler == NULL) {
        fprintf(stderr, PROGRAM ": cannot load %s\n", settings->model);
        return false;
    }
    const double start = processor_seconds_now();
    const bool   done  = enlarge(session, upscaler);
    *seconds = processor_seconds_now() - start;
    free_upscaler_ctx(upscaler);
    return done;
}

static sd_ctx_t * open_model(const struct settings * settings) {
    sd_ctx_params_t params;
    sd_ctx_params_init(&params);
    params.model_path            = settings->model;
    params.taesd_path            = settings->tiny;
    params.n_threads             = (int) settings->threads;
    params.rng_type              = CPU_RNG;
    params.sampler_rng_type      = CPU_RNG;
    params.flash_attn            = is_on(settings->flash);
    params.diffusion_flash_attn  = is_on(settings->flash);
    params.diffusion_conv_direct = is_on(settings->direct);
    params.vae_conv_direct       = is_on(settings->direct);
    sd_ctx_t * context = new_sd_ctx(&params);
    if (context == NULL) {
        fprintf(stderr, PROGRAM ": cannot load %s\n", settings->model);
    }
    return context;
}

static bool paint(struct session * session, sd_ctx_t * context) {
    const struct settings * settings = session->settings;
    for (int i = 0; i < session->n_sizes; i++) {
        sd_img_gen_params_t params;
        sd_img_gen_params_init(&params);
        params.prompt                      = "a lake between (mountains:1.3), evening light, oil on canvas";
        params.negative_prompt             = "blurred";
        params.width                       = session->sizes[i].width;
        params.height                      = session->sizes[i].height;
        params.seed                        = settings->seed + i;
        params.batch_count                 = (int) settings->batch;
        params.sample_params.sample_method = EULER_A_SAMPLE_METHOD;
        params.sample_params.sample_steps  = (int) settings->steps;
        params.vae_tiling_params.enabled     = is_on(settings->tiles);
        params.vae_tiling_params.tile_size_x = (int) settings->tile;
        params.vae_tiling_params.tile_size_y = (int) settings->tile;
        params.vae_tiling_params.target_overlap = 0.25f;
        if (is_on(settings->from_image)) {
            params.init_image = random_image(session->sizes[i], (uint64_t) params.seed);
            params.strength   = 1.0f;
        }
        sd_image_t * images = generate_image(context, &params);
        free(params.init_image.data);
        if (images == NULL) {
            fprintf(stderr, PROGRAM ": no image was made\n");
            return false;
        }
        bool taken = true;
        for (int b = 0; b < params.batch_count; b++) {
            taken = take_image(session, &images[b]) && taken;
        }
        free_sd_images(images, params.batch_count);
        if (!taken) {
            return false;
        }
    }
    return true;
}

static bool run_model(struct session * session, double * seconds) {
    sd_ctx_t * context = open_model(session->settings);
    if (context == NULL) {
        return false;
    }
    const double start = processor_seconds_now();
    const bool   done  = paint(session, context);
    *seconds = processor_seconds_now() - start;
    free_sd_ctx(context);
    return done;
}

static bool run(struct session * session) {
    double seconds = 0.0;
    const bool done = is_on(session->settings->upscaler) ? run_upscaler(session, &seconds)
                                                         : run_model(session, &seconds);
    if (!done) {
        return false;
    }
    if (session->failed || fflush(session->file) != 0) {
        fprintf(stderr, PROGRAM ": cannot write %s\n", session->settings->out);
        return false;
    }
    struct rusage usage = { 0 };
    getrusage(RUSAGE_SELF, &usage);
    printf("images=%d\nunits_per_second=%.4f\npeak_resident=%ld\n", session->images, session->images / seconds,
           usage.ru_maxrss * 1024);
    return true;
}

static bool are_switches(const struct settings * settings) {
    const char * const switches[][2] = {
        { "--upscaler", settings->upscaler }, { "--flash", settings->flash },     { "--tiles", settings->tiles },
        { "--direct", settings->direct },     { "--from-image", settings->from_image },
    };
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        if (!is_on(switches[i][1]) && strcmp(switches[i][1], "off") != 0) {
            fprintf(stderr, PROGRAM ": %s needs 'on' or 'off', not '%s'\n", switches[i][0], switches[i][1]);
            return false;
        }
    }
    return true;
}

int main(int argc, char ** argv) {
    struct settings settings = {
        .sizes = "64x64", .upscaler = "off", .flash = "off", .tiles = "off", .direct = "off", .from_image = "off",
        .steps = 1, .tile = 4, .batch = 1, .threads = 2, .seed = 1,
    };
    const struct option_spec options[] = {
        { "--out",        NULL,              0, 0,       &settings.out        },
        { "--sizes",      NULL,              0, 0,       &settings.sizes      },
        { "--upscaler",   NULL,              0, 0,       &settings.upscaler   },
        { "--from-image", NULL,              0, 0,       &settings.from_image },
        { "--tiny",       NULL,              0, 0,       &settings.tiny       },
        { "--flash",      NULL,              0, 0,       &settings.flash      },
        { "--direct",     NULL,              0, 0,       &settings.direct     },
        { "--tiles",      NULL,              0, 0,       &settings.tiles      },
        { "--tile",       &settings.tile,    4, 4096,    NULL                 },
        { "--steps",      &settings.steps,   1, 100,     NULL                 },
        { "--batch",      &settings.batch,   1, 16,      NULL                 },
        { "--threads",    &settings.threads, 1, 512,     NULL                 },
        { "--seed",       &settings.seed,    0, 1 << 30, NULL                 },
    };
    switch (parse_options(argc, argv, PROGRAM, options, sizeof(options) / sizeof(options[0]), &settings.model)) {
        case PARSE_HELP:  fputs(usage, stdout); return EXIT_SUCCESS;
        case PARSE_ERROR: fputs(usage, stderr); return EXIT_USAGE;
        case PARSE_OK:    break;
    }
    struct session session = { .settings = &settings };
    if (!are_switches(&settings) || !parse_sizes(&session)) {
        return EXIT_USAGE;
    }
    if (settings.out == NULL) {
        fprintf(stderr, PROGRAM ": --out is needed\n");
        return EXIT_USAGE;
    }
    sd_set_log_callback(log_errors, NULL);
    sd_set_progress_callback(no_progress, NULL);
    session.file = fopen(settings.out, "wb");
    if (session.file == NULL) {
        fprintf(stderr, PROGRAM ": cannot create %s: %s\n", settings.out, strerror(errno));
        return EXIT_FAILURE;
    }
    const bool done = run(&session);
    fclose(session.file);
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
