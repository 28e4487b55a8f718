/* Lines that libzookeeper logs: they quote addresses and paths from outside, and go to the user's log. */
#include "fuzz.h"

#include "zookeeper_store.h"

static int told;

static void on_log(void *ctx, zkl_log_level level, const char *line)
{
    MUST(level >= ZKL_LOG_ERROR && level <= ZKL_LOG_DEBUG);
    MUST(fuzz_one_line(line, 512));
    told++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    static struct zkl__store store;
    store.events.log = on_log;
    store.config.log_level = size > 0 ? (zkl_log_level)(1 + data[size - 1] % 4) : ZKL_LOG_DEBUG;
    zkl__zk_log_open(&store);
    MUST(store.log_fn);
    told = 0;
    store.log_fn(text);
    MUST(told <= 1 && (told == 1 || store.config.log_level < ZKL_LOG_DEBUG));
    zkl__zk_log_close(&store);
    free(text);
    return 0;
}
