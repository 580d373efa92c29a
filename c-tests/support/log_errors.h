// A logger that shows errors only, for llama.cpp, whisper.cpp and ggml.
#pragma once

#include <stdio.h>

#include "ggml.h"

static void log_errors_only(enum ggml_log_level level, const char * text, void * user_data) {
    (void) user_data;
    // A continuation belongs to the message before it.
    static enum ggml_log_level message_level = GGML_LOG_LEVEL_NONE;
    if (level != GGML_LOG_LEVEL_CONT) {
        message_level = level;
    }
    if (message_level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}
