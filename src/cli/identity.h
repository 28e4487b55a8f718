/* identity.h - "host:pid (user)": who stands behind a contender's znode. */
#ifndef CLI_IDENTITY_H
#define CLI_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

struct identity {
    char host[256];
    int pid;
    char user[128];
};

void identity_own(struct identity *identity);
/* As metadata of a contender. */
void identity_format(const struct identity *identity, char *text, size_t size);
/* False when the text is of another form: other clients write what they like. */
bool identity_parse(struct identity *identity, const char *text, size_t size);

#endif
