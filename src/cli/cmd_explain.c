/* cmd_explain.c - a post-mortem of a lock: who held when, who waited for whom, why one was lost. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "contend.h"
#include "facts.h"
#include "options.h"
#include "queues.h"

#define NEAR_MS 2000 /* bounds that are nearer than that are one time */
#define FILES_MOST 1000

enum { OPTION_REPORT = OPTION_FIRST_OWN, OPTION_RECORD };

static const struct poptOption options[] = {
    OPTION_VALUE("report", '\0', OPTION_REPORT,
                 "what a run wrote with its --report; may be said again", "FILE"),
    OPTION_VALUE("record", '\0', OPTION_RECORD, "what 'watch --record' wrote; may be said again",
                 "FILE"),
    OPTION_END,
};

struct explain {
    struct cli *cli;
    const char *files[FILES_MOST];
    bool is_record[FILES_MOST];
    size_t count;
    struct facts facts;
    json_t *unknown; /* sentences */
};

static bool take(void *into, int option, const char *value)
{
    struct explain *explain = into;
    if (explain->count == FILES_MOST) {
        cli_error("explain: more than %d files", FILES_MOST);
        return false;
    }
    explain->is_record[explain->count] = option == OPTION_RECORD;
    explain->files[explain->count++] = value;
    return true;
}

/* --- how one contender ended ----------------------------------------------------------------- */

static void end_by_report(const json_t *report, char *text, size_t size)
{
    const char *outcome = history_text_in(report, "outcome", ""),
               *reason = history_text_in(report, "reason", "");
    json_t *child = json_object_get(report, "child");
    int64_t number = json_integer_value(json_object_get(child, "signal"));
    char how[64];
    if (number > 0) {
        snprintf(how, sizeof how, "signal %" PRId64 " ended CMD", number);
    } else {
        snprintf(how, sizeof how, "CMD's exit code was %" PRId64,
                 (int64_t)json_integer_value(json_object_get(child, "exit")));
    }
    if (strcmp(outcome, "ran") == 0) {
        snprintf(text, size, "released; %s", how);
    } else if (strcmp(outcome, "revoked") == 0) {
        snprintf(text, size, "released for 'zklock revoke'; %s", how);
    } else if (strcmp(outcome, "busy") == 0) {
        snprintf(text, size, "gave up: not granted in time");
    } else if (strcmp(outcome, "lost") == 0) {
        snprintf(text, size, "LOST: %s", *reason ? reason : "its report does not say why");
    } else {
        snprintf(text, size, "%s%s%s", outcome, *reason ? ": " : "", reason);
    }
}

static void end_by_looks(const struct fact *fact, char *text, size_t size)
{
    char at[40];
    queues_utc(fact->process == HISTORY_PROCESS_GONE ? fact->gone.at_ms : fact->stopped.at_ms, at,
               sizeof at);
    switch (fact_end(fact)) {
    case FACT_KILLED:
        snprintf(text, size,
                 "KILLED: its process was gone at %s, its znode %.1f s later with its session: it "
                 "did not release",
                 at, (double)(fact->ended.at_ms - fact->gone.at_ms) / 1000);
        break;
    case FACT_STOPPED:
        snprintf(text, size, "LOST: its process was stopped from %s on, so its session ended", at);
        break;
    case FACT_LEFT:
        snprintf(text, size, "left the queue without a grant");
        break;
    case FACT_UNKNOWN:
        snprintf(text, size,
                 "released or lost: nobody saw which; the --report of that run would say");
        break;
    default:
        snprintf(text, size, "the record ends while it %s",
                 fact->granted.at_ms ? "holds" : "waits");
    }
}

static void end_of(const struct fact *fact, char *text, size_t size)
{
    if (fact->report) {
        end_by_report(fact->report, text, size);
    } else if (!fact->there) {
        end_by_looks(fact, text, size);
    } else if (fact->process == HISTORY_PROCESS_GONE) {
        snprintf(
            text, size,
            "its process is gone: its znode ends with its session, within the session timeout");
    } else if (fact->process == HISTORY_PROCESS_STOPPED) {
        snprintf(text, size,
                 "its process is stopped: kill -CONT lets it go on, else its session ends");
    } else {
        snprintf(text, size, "%s now", fact->holds ? "holds" : "waits");
    }
}

/* --- what is not known ----------------------------------------------------------------------- */

static void add_unknown(struct explain *explain, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_unknown(struct explain *explain, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_array_append_new(explain->unknown, json_string(text));
}

static void add_gaps(struct explain *explain, const struct history *history)
{
    for (size_t i = 0; i < history->gap_count; i++) {
        char from[40], to[40];
        queues_utc(history->gaps[i].from_ms, from, sizeof from);
        queues_utc(history->gaps[i].to_ms, to, sizeof to);
        if (history->gaps[i].to_ms) {
            add_unknown(explain,
                        "What happened from %s to %s: nobody looked, or no server responded.", from,
                        to);
        }
    }
    if (!history->looked) {
        add_unknown(explain, "What a record without this lock would say: it was made for others.");
    } else {
        char from[40], to[40];
        queues_utc(history->began_ms, from, sizeof from);
        queues_utc(history->looked_ms, to, sizeof to);
        add_unknown(explain,
                    "What happened before %s and, but for what stands in the queue now, after %s: "
                    "the record covers the time between.",
                    from, to);
    }
}

static void find_unknown(struct explain *explain)
{
    const struct facts *facts = &explain->facts;
    size_t silent = 0;
    if (!facts->now) {
        add_unknown(explain, "Who is in the queue now: %s", cli_last_error());
    }
    if (facts->history_count == 0) {
        add_unknown(
            explain,
            "Who held or waited before, but for the reports: ZooKeeper keeps nothing of a znode "
            "that was deleted. 'zklock watch --record FILE' would.");
    }
    for (size_t i = 0; i < facts->history_count; i++) {
        add_gaps(explain, facts->histories[i]);
    }
    for (size_t i = 0; i < facts->count; i++) {
        silent += fact_end(&facts->all[i]) == FACT_UNKNOWN;
    }
    if (silent > 0) {
        add_unknown(explain,
                    "How %zu holders ended: a list of znodes does not tell a release from a loss.",
                    silent);
    }
    if (facts->skew_ms) {
        add_unknown(
            explain,
            "The true time: the servers' clock and the recording host's differ by %.1f s or more.",
            (double)llabs(facts->skew_ms) / 1000);
    }
}

/* --- text ------------------------------------------------------------------------------------ */

static bool line(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool line(const char *format, ...)
{
    char text[3072];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return cli_line(stdout, CLI_FOLD, "%s", text);
}

/* "at T", or "after S and by T". */
static const char *bounds(struct history_time time, char *text, size_t size)
{
    char at[40], after[40];
    queues_utc(time.at_ms, at, sizeof at);
    queues_utc(time.after_ms, after, sizeof after);
    if (!time.after_ms) {
        snprintf(text, size, "by %s", at);
    } else if (time.at_ms - time.after_ms <= NEAR_MS) {
        snprintf(text, size, "at %s", at);
    } else {
        snprintf(text, size, "after %s and by %s", after, at);
    }
    return text;
}

static void print_wait(const struct facts *facts, const struct fact *fact)
{
    const struct fact *before = facts_with_token(facts, fact->predecessor);
    char queued[40];
    queues_utc(fact->queued_ms, queued, sizeof queued);
    if (fact->behind > 0) {
        line("  queued   at %s, with %zu ahead; waited for token %" PRId64 "%s%s%s", queued,
             fact->behind, fact->predecessor, before ? " (" : "", before ? before->who : "",
             before ? ")" : "");
    } else {
        line("  queued   at %s%s", queued, fact->recorded || fact->there ? ", nobody ahead" : "");
    }
}

static void print_fact(const struct facts *facts, const struct fact *fact)
{
    char time[128], how[2300];
    line("%s%" PRId64 "  %s", fact->token ? "token " : "no token ", fact->token, fact->who);
    print_wait(facts, fact);
    if (fact->granted.at_ms) {
        line("  granted  %s", bounds(fact->granted, time, sizeof time));
    }
    end_of(fact, how, sizeof how);
    if (fact->ended.at_ms) {
        line("  ended    %s: %s", bounds(fact->ended, time, sizeof time), how);
    } else {
        line("  state    %s", how);
    }
}

static const struct fact *last_loss(const struct facts *facts)
{
    const struct fact *last = NULL;
    for (size_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->all[i];
        if (fact_is_loss(fact) && (!last || fact->ended.at_ms >= last->ended.at_ms)) {
            last = fact;
        }
    }
    return last;
}

static int print_text(const struct explain *explain)
{
    const struct facts *facts = &explain->facts;
    const struct fact *loss = last_loss(facts);
    size_t i;
    json_t *unknown;
    line("%s", facts->path);
    for (i = 0; i < facts->count; i++) {
        print_fact(facts, &facts->all[i]);
    }
    if (facts->count == 0) {
        line("nothing is known of any contender");
    }
    if (loss) {
        char how[2300];
        end_of(loss, how, sizeof how);
        line("last loss: token %" PRId64 ", %s: %s", loss->token, loss->who, how);
    } else {
        line("last loss: none is known");
    }
    json_array_foreach(explain->unknown, i, unknown)
    {
        line("not known: %s", json_string_value(unknown));
    }
    return ferror(stdout) ? EXIT_FAILED : EXIT_DONE;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *time_json(int64_t time_ms)
{
    return time_ms ? json_integer((json_int_t)time_ms) : json_null();
}

static json_t *fact_json(const struct fact *fact)
{
    static const char *const ends[] = {"waits",   "holds", "reported", "killed",
                                       "stopped", "left",  "unknown"};
    char how[2300];
    end_of(fact, how, sizeof how);
    json_t *text = json_string(how);
    return json_pack("{s:s, s:s, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:s, s:o}",
                     "name", fact->name, "who", fact->who, "token", time_json(fact->token), "there",
                     fact->there, "queued_ms", time_json(fact->queued_ms), "granted_ms",
                     time_json(fact->granted.at_ms), "granted_after_ms",
                     time_json(fact->granted.after_ms), "ended_ms", time_json(fact->ended.at_ms),
                     "ended_after_ms", time_json(fact->ended.after_ms), "behind_token",
                     time_json(fact->predecessor), "behind", (json_int_t)fact->behind, "report",
                     fact->report ? json_incref(fact->report) : json_null(), "end",
                     ends[fact_end(fact)], "how", text ? text : json_null());
}

static int print_json(const struct explain *explain)
{
    const struct facts *facts = &explain->facts;
    const struct fact *loss = last_loss(facts);
    json_t *contenders = json_array();
    for (size_t i = 0; i < facts->count; i++) {
        json_array_append_new(contenders, fact_json(&facts->all[i]));
    }
    json_t *all =
        json_pack("{s:i, s:s, s:o, s:o, s:o, s:O}", "v", QUEUES_VERSION, "path", facts->path, "now",
                  facts->now ? json_incref(facts->now) : json_null(), "contenders", contenders,
                  "last_loss", loss ? fact_json(loss) : json_null(), "unknown", explain->unknown);
    return queues_print_json(all) ? EXIT_DONE : EXIT_FAILED;
}

/* --- the subcommand -------------------------------------------------------------------------- */

/* CLI_GO_ON, or the exit code if there is nothing else to go by. */
static int look_now(struct explain *explain)
{
    zkl_session *session;
    zkl_queue *queue = NULL;
    int code = cli_connect(explain->cli, QUEUES_LIST_MS, &session);
    if (code == CLI_GO_ON) {
        code = queues_list(&queue, session, explain->facts.path);
        zkl_session_close(session, QUEUES_LIST_MS);
    }
    if (code != CLI_GO_ON) {
        return explain->count > 0 && code != EXIT_FAILED ? CLI_GO_ON : code;
    }
    json_t *now = queues_json(explain->facts.path, queue);
    history_add_processes(now);
    bool added = facts_add_now(&explain->facts, now, clock_ms(CLOCK_REALTIME));
    json_decref(now);
    zkl_queue_free(queue);
    return added ? CLI_GO_ON : EXIT_FAILED;
}

/* The files first: what is wrong with them is known before anything is connected. */
static int gather(struct explain *explain)
{
    for (size_t i = 0; i < explain->count; i++) {
        const char *file = explain->files[i];
        if (!(explain->is_record[i] ? facts_add_record(&explain->facts, file)
                                    : facts_add_report(&explain->facts, file))) {
            return EXIT_FAILED;
        }
    }
    return look_now(explain);
}

static int run(struct cli *cli, const struct cli_command *self, int argc, const char **argv)
{
    struct explain explain = {.cli = cli, .unknown = json_array()};
    int count;
    const char **words;
    int code = cli_parse(cli, self, argc, argv, take, &explain, &count, &words);
    if (code == CLI_GO_ON && count != 1) {
        code = cli_usage("explain", "explain: which lock? One, please");
    }
    char *path = code == CLI_GO_ON ? cli_lock_path(words[0]) : NULL;
    if (code == CLI_GO_ON) {
        explain.facts.path = path;
        code = path ? gather(&explain) : EXIT_FAILED;
    }
    if (code == CLI_GO_ON) {
        facts_sort(&explain.facts);
        find_unknown(&explain);
        code = cli->json ? print_json(&explain) : print_text(&explain);
    }
    facts_free(&explain.facts);
    json_decref(explain.unknown);
    free(path);
    return code;
}

const struct cli_command cmd_explain = {
    .name = "explain",
    .run = run,
    .arguments = "LOCK",
    .summary = "who held and waited when, and why a lock was lost",
    .examples = "  zklock explain backup\n"
                "  zklock explain --record day.jsonl --report web1.json backup\n",
    .notes = "Goes by the queue as it stands, by records and by reports, and says what these do "
             "not tell. Without\n"
             "servers it goes by the files alone. Of a contender of this host it says whether its "
             "process lives.\n",
    .options = options,
};
