// Sound that a seed makes.

#pragma once

#include "splitmix.h"

#include "whisper.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

struct sound {
    float * samples;
    int     count;
};

// Tones of random pitch and length with a little noise. False without memory. The caller frees the samples.
static bool make_sound(struct sound * sound, long long seconds, uint64_t seed) {
    sound->count   = (int) (seconds * WHISPER_SAMPLE_RATE);
    sound->samples = malloc(sizeof(float) * (size_t) sound->count);
    if (sound->samples == NULL) {
        return false;
    }
    double pitch = 0.0;
    for (int i = 0, left = 0; i < sound->count; i++, left--) {
        if (left == 0) {
            pitch = 80.0 + (double) (splitmix64(&seed) % 3000);
            left  = WHISPER_SAMPLE_RATE / 20 + (int) (splitmix64(&seed) % (WHISPER_SAMPLE_RATE / 2));
        }
        const double noise = (double) (splitmix64(&seed) >> 40) / (double) (1 << 24) - 0.5;
        const double angle = 2.0 * 3.141592653589793 * pitch * i / WHISPER_SAMPLE_RATE;
        sound->samples[i]  = (float) (0.4 * sin(angle) + 0.2 * sin(3.0 * angle) + 0.05 * noise);
    }
    return true;
}
