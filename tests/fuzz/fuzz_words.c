/* The command's own: durations, names of locks, mistyped subcommands, who holds (as a znode has it) and its way to a terminal. */
#include "fuzz.h"

#include "cli.h"

struct cli cli;
static const struct cli_command run = {.name = "run"}, hold = {.name = "hold"}, sandbox = {.name = "sandbox"};
const struct cli_command *const cli_commands[] = {&run, &hold, &sandbox, NULL};

static void check_duration(const char *text)
{
    int64_t ms = -7;
    if (duration_parse(text, &ms)) {
        MUST(ms >= 0 && ms <= INT64_MAX / 2000000 && text[0] >= '0' && text[0] <= '9');
    } else {
        MUST(ms == -7);
    }
}

static void check_identity(const char *data, size_t size)
{
    struct identity identity = {.pid = -7}, again;
    if (!identity_parse(&identity, data, size)) {
        MUST(identity.pid == -7);
        return;
    }
    char text[512];
    MUST(identity.pid > 0);
    snprintf(text, sizeof text, "%s:%d (%s)", identity.host, identity.pid, identity.user);
    MUST(identity_parse(&again, text, strlen(text)));
    MUST(again.pid == identity.pid && strcmp(again.host, identity.host) == 0 && strcmp(again.user, identity.user) == 0);
}

/* What comes through is UTF-8, without a control character of ASCII or of ISO 6429's upper half. */
static void check_printable(const char *data, size_t size)
{
    for (size_t room = 1; room < size + 3 && room < 64; room++) {
        char *out = malloc(room);
        MUST(out);
        cli_printable(data, size, out, room);
        MUST(fuzz_one_line(out, room));
        size_t length = strlen(out);
        for (size_t at = 0; at < length;) {
            size_t before = at;
            int32_t point = fuzz_decode((const unsigned char *)out, length, &at);
            MUST(point >= 0x20 && (point < 0x7f || point > 0x9f)); /* -1: not UTF-8 */
            MUST(at > before);
        }
        free(out);
    }
}

/* A path, or a complaint: what comes out can be a lock, and what could be one comes out. */
static void check_lock_path(const char *text)
{
    char *path = cli_lock_path(text);
    MUST(!path || (text[0] != '-' && zkl_path_check(path, NULL) == ZKL_OK));
    MUST(path || text[0] != '/' || zkl_path_check(text, NULL) != ZKL_OK);
    MUST(!path || strcmp(text[0] == '/' ? path : path + strlen("/locks/"), text) == 0);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    check_duration(text);
    check_identity(text, size);
    check_printable(text, size);
    check_lock_path(text);
    const char *meant = cli_suggest_command(text);
    MUST(!meant || meant == run.name || meant == hold.name || meant == sandbox.name);
    free(text);
    return 0;
}
