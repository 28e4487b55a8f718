/* zookeeper_log.c - the client library's log lines. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "zookeeper_store.h"

#define LOG_LINE_MAX 480
#define LOG_SLOTS 32

static _Atomic(struct zkl__store *) slots[LOG_SLOTS];
static atomic_bool muted[LOG_SLOTS];   /* the slot is taken, its store closed */
static atomic_uint logging[LOG_SLOTS]; /* threads that are at it */

/* "2026-01-31 12:00:00,000:123(0x7f):ZOO_WARN@function@123: words". The client library calls every
 * lost connection an error and reports its connecting as information: one level lower than it says,
 * so that an alarm on errors rings for losses alone. */
static zkl_log_level level_of(const char *line)
{
    static const struct {
        const char *mark;
        zkl_log_level level;
    } marks[] = {{":ZOO_ERROR@", ZKL_LOG_WARN},
                 {":ZOO_WARN@", ZKL_LOG_INFO},
                 {":ZOO_INFO@", ZKL_LOG_DEBUG},
                 {":ZOO_DEBUG@", ZKL_LOG_DEBUG}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strstr(line, marks[i].mark)) {
            return marks[i].level;
        }
    }
    return ZKL_LOG_DEBUG;
}

static const char *words_of(const char *line)
{
    const char *mark = strstr(line, ":ZOO_");
    const char *words = mark ? strstr(mark, ": ") : NULL;
    return words ? words + 2 : line;
}

/* Some of the library's lines end in a newline of their own; server addresses and the like come
 * from outside. */
static void copy_line(char out[LOG_LINE_MAX], const char *words)
{
    size_t length = 0;
    for (; length < LOG_LINE_MAX - 1 && words[length]; length++) {
        unsigned char byte = (unsigned char)words[length];
        out[length] = (char)(byte < 0x20 || byte == 0x7f ? ' ' : byte);
    }
    while (length > 0 && out[length - 1] == ' ') {
        length--;
    }
    out[length] = '\0';
}

/* "Starting SASL negotiation: generic failure SASL(-1): generic failure: GSSAPI Error: Unspecified
 * GSS failure.  Minor code may provide more information (Server ... not found in Kerberos
 * database)": what is worth a person's time is at the end. */
static const char *cause_of(const char *words)
{
    static const char *const prefixes[] = {
        "SASL negotiation: ", "generic failure: ", "GSSAPI Error: ", "more information "};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *found = strstr(words, prefixes[i]);
        words = found ? found + strlen(prefixes[i]) : words;
    }
    return words;
}

/* The line after this one only has a number. */
static void keep_complaint(struct zkl__store *store, const char *message)
{
    if (store->sasl && strstr(message, ":ZOO_ERROR@") && strstr(message, "SASL negotiation")) {
        char line[LOG_LINE_MAX];
        copy_line(line, cause_of(words_of(message)));
        pthread_mutex_lock(&store->complaint_mutex);
        snprintf(store->complaint, sizeof store->complaint, "%.*s",
                 (int)sizeof store->complaint - 1, line);
        pthread_mutex_unlock(&store->complaint_mutex);
    }
}

void zkl__zk_complaint(struct zkl__store *store, char *text, size_t size)
{
    pthread_mutex_lock(&store->complaint_mutex);
    snprintf(text, size, "%s", store->complaint);
    pthread_mutex_unlock(&store->complaint_mutex);
}

static void tell_line(struct zkl__store *store, const char *message)
{
    keep_complaint(store, message);
    zkl_log_level level = level_of(message);
    if (level > store->log_level) {
        return;
    }
    char line[LOG_LINE_MAX];
    copy_line(line, words_of(message));
    store->events.log(store->ctx, level, line);
}

/* May run with the library's locks held, on its threads and in our calls of it. */
static void log_line(int slot, const char *message)
{
    atomic_fetch_add(&logging[slot],
                     1); /* before the look: mute sees either us, or that we have seen it */
    struct zkl__store *store = atomic_load(&muted[slot]) ? NULL : atomic_load(&slots[slot]);
    if (store && message) {
        tell_line(store, message);
    }
    atomic_fetch_sub(&logging[slot], 1);
}

/* clang-format off */
#define LOG_FUNCTIONS(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
/* clang-format on */

#define LOG_FUNCTION(n)                      \
    static void log_##n(const char *message) \
    {                                        \
        log_line(n, message);                \
    }
LOG_FUNCTIONS(LOG_FUNCTION)

#define LOG_NAME(n) log_##n,
static const log_callback_fn functions[LOG_SLOTS] = {LOG_FUNCTIONS(LOG_NAME)};

/* Never no callback at all: the library would write to stderr. */
static void log_nothing(const char *message)
{
    (void)message;
}

void zkl__zk_log_open(struct zkl__store *store)
{
    store->log_slot = -1;
    store->log_fn = log_nothing;
    if (!store->events.log) {
        return;
    }
    for (int i = 0; i < LOG_SLOTS; i++) {
        struct zkl__store *none = NULL;
        if (atomic_compare_exchange_strong(&slots[i], &none, store)) {
            store->log_slot = i;
            store->log_fn = functions[i];
            return;
        }
    }
}

void zkl__zk_log_mute(struct zkl__store *store)
{
    if (store->log_slot >= 0) {
        atomic_store(&muted[store->log_slot], true);
        while (atomic_load(&logging[store->log_slot]) > 0) {
            sched_yield(); /* for the time of one line */
        }
    }
}

void zkl__zk_log_close(struct zkl__store *store)
{
    if (store->log_slot >= 0) {
        atomic_store(&muted[store->log_slot], false);
        atomic_store(&slots[store->log_slot], NULL);
    }
}
