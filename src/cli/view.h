/* view.h - queues as `zklock watch` shows them, live or from a record.
 *
 * On a terminal: a time line that moves. On one that has no cursor (TERM=dumb): a line of text for
 * each change. Into a pipe: a JSON object for each change. */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "history.h"

enum view_mode { VIEW_SCREEN, VIEW_TEXT, VIEW_JSON };

struct view_queue {
    struct history *history;
    char *content; /* what was last shown, but for times */
    int root;      /* of the paths that are watched, the one it was found at or below */
};

struct view {
    enum view_mode mode;
    bool colour;
    int64_t span_ms; /* of the time line */
    struct view_queue *queues;
    size_t count;
};

/* Chooses mode and colour by standard output, --json, $TERM and $NO_COLOR. */
void view_init(struct view *view, bool json);
void view_free(struct view *view);

enum view_result { VIEW_SAME, VIEW_CHANGED, VIEW_FAILED /* which was said, or stdout failed */ };
/* Takes a look at one queue; shows what is a line. */
enum view_result view_look(struct view *view, const char *path, int root, int64_t time_ms,
                           json_t *queue);
/* Nothing has changed until then. */
void view_looked(struct view *view, int64_t time_ms);
/* Nobody could look from then on. */
void view_blind(struct view *view, int64_t time_ms);
/* Draws the screen, if this is one, and forgets what a time line would no longer show. */
void view_draw(struct view *view, int64_t now_ms);

#endif
