/* no_loop.c - where threads of the library do the work: there is no loop to go on, and nothing
 * visits one. */
#include "thread.h"

const bool zkl__threadless = false;

void zkl__loop_go_on(void) {}

int zkl__loop_descriptor(int fd)
{
    return fd;
}

void zkl__loop_invite(struct zkl__visitor *visitor)
{
    (void)visitor;
}

void zkl__loop_dismiss(struct zkl__visitor *visitor)
{
    (void)visitor;
}
