// Descriptions of models: the metadata of a GGUF file as text, one "key = value" a line, comments after '#'.
//
// The keys are GGUF's without the name of the architecture before them, which `architecture` gives; those of tokenizers
// have no such name. The type is given
// by the value: 8 is a u32, 1e-5 an f32, true a bool, "a word" a string, and [0, 0, 8] an array of u32 that is repeated
// until there is one number a layer. The numbers of layers and of tokens are not part of the file.
//
// `without` lists parts of names, with spaces between: optional weights of the architecture that this model lacks.

#pragma once

#include "gguf.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_FILE_LINE = 256, MODEL_FILE_MAX_LAYERS = 512 };

struct model_file {
    struct gguf_context * metadata;
    char                  without[MODEL_FILE_LINE];
};

static const char * model_architecture(const struct gguf_context * model) {
    const int64_t key = gguf_find_key(model, "general.architecture");
    return key < 0 ? NULL : gguf_get_val_str(model, key);
}

static char * trimmed(char * text) {
    while (isspace((unsigned char) *text)) {
        text++;
    }
    char * end = text + strlen(text);
    while (end > text && isspace((unsigned char) end[-1])) {
        end--;
    }
    *end = '\0';
    return text;
}

static bool set_layer_numbers(struct gguf_context * model, const char * key, char * numbers, long long layers) {
    int32_t   pattern[MODEL_FILE_MAX_LAYERS];
    int32_t   values[MODEL_FILE_MAX_LAYERS];
    long long length = 0;
    for (char * next = strtok(numbers, ","); next != NULL; next = strtok(NULL, ",")) {
        if (length == MODEL_FILE_MAX_LAYERS) {
            return false;
        }
        pattern[length++] = (int32_t) strtol(next, NULL, 10);
    }
    if (length == 0 || layers > MODEL_FILE_MAX_LAYERS) {
        return false;
    }
    for (long long layer = 0; layer < layers; layer++) {
        values[layer] = pattern[layer % length];
    }
    gguf_set_arr_data(model, key, GGUF_TYPE_INT32, values, (size_t) layers);
    return true;
}

static bool set_number(struct gguf_context * model, const char * key, const char * value) {
    char * end = NULL;
    errno = 0;
    if (strpbrk(value, ".e") != NULL) {
        gguf_set_val_f32(model, key, strtof(value, &end));
    } else {
        gguf_set_val_u32(model, key, (uint32_t) strtoul(value, &end, 10));
    }
    return errno == 0 && end != value && *end == '\0';
}

static bool set_value(struct gguf_context * model, const char * key, char * value, long long layers) {
    char * last = value[0] == '\0' ? value : value + strlen(value) - 1;
    if (value[0] == '[' && *last == ']') {
        *last = '\0';
        return set_layer_numbers(model, key, value + 1, layers);
    }
    if (value[0] == '"' && last > value && *last == '"') {
        *last = '\0';
        gguf_set_val_str(model, key, value + 1);
        return true;
    }
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        gguf_set_val_bool(model, key, strcmp(value, "true") == 0);
        return true;
    }
    return set_number(model, key, value);
}

// Parses one line; returns whether it is well formed.
static bool read_model_line(struct model_file * file, char * line, long long layers) {
    struct gguf_context * model = file->metadata;
    line[strcspn(line, "#\n")] = '\0';
    char * key   = trimmed(line);
    char * value = strchr(key, '=');
    if (*key == '\0') {
        return true;
    }
    if (value == NULL) {
        return false;
    }
    *value = '\0';
    key    = trimmed(key);
    value  = trimmed(value + 1);
    if (strcmp(key, "architecture") == 0) {
        gguf_set_val_str(model, "general.architecture", value);
        return true;
    }
    if (strcmp(key, "without") == 0) {
        strcpy(file->without, value); // no longer than a line
        return true;
    }
    if (strncmp(key, "tokenizer.", strlen("tokenizer.")) == 0) {
        return set_value(model, key, value, layers);
    }
    const char * architecture = model_architecture(model);
    char         full[MODEL_FILE_LINE];
    if (architecture == NULL || snprintf(full, sizeof(full), "%s.%s", architecture, key) >= (int) sizeof(full)) {
        return false;
    }
    return set_value(model, full, value, layers);
}

static void set_size(struct gguf_context * model, const char * key, long long value) {
    char full[MODEL_FILE_LINE];
    snprintf(full, sizeof(full), "%s.%s", model_architecture(model), key);
    gguf_set_val_u32(model, full, (uint32_t) value);
}

static bool read_model_lines(struct model_file * model, FILE * file, const char * path, long long layers) {
    char line[MODEL_FILE_LINE];
    for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        if (!read_model_line(model, line, layers)) {
            fprintf(stderr, "%s, line %d: expected \"key = value\", first of all the architecture\n", path, number);
            return false;
        }
    }
    if (model_architecture(model->metadata) == NULL) {
        fprintf(stderr, "%s names no architecture\n", path);
        return false;
    }
    return true;
}

// Describes a model with that many layers and tokens in its vocabulary; false, with a message, when the file is missing
// or malformed. The metadata is to be freed with gguf_free.
static bool read_model_file(struct model_file * model, const char * path, long long layers, long long vocab) {
    FILE * file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    *model = (struct model_file) { .metadata = gguf_init_empty() };
    const bool good = read_model_lines(model, file, path, layers);
    fclose(file);
    if (!good) {
        gguf_free(model->metadata);
        return false;
    }
    set_size(model->metadata, "block_count", layers);
    set_size(model->metadata, "vocab_size", vocab);
    // Without a tokenizer, llama.cpp takes the number of tokens from the key above.
    gguf_set_val_str(model->metadata, "tokenizer.ggml.model", "no_vocab");
    return true;
}
