/* exit_code.h - what the command's exit codes mean; scripts rely on the numbers. */
#ifndef CLI_EXIT_CODE_H
#define CLI_EXIT_CODE_H

enum cli_exit {
    EXIT_DONE = 0,
    EXIT_PROBLEM = 1,          /* doctor: something is not as it should be */
    EXIT_NOBODY = 1,           /* check: nobody holds the lock; release: nothing was removed */
    EXIT_NOT_DONE = 1,         /* once --status: the slot is not recorded */
    EXIT_LOST = 120,           /* the lock was lost while CMD ran; CMD was stopped */
    EXIT_DENIED = 121,         /* authentication or ACL refused */
    EXIT_UNREACHABLE = 122,    /* no ensemble reached, or no session, in time */
    EXIT_NOT_GRANTED = 124,    /* not granted within -w or -n */
    EXIT_FAILED = 125,         /* usage, configuration, own failure */
    EXIT_CANNOT_EXECUTE = 126, /* CMD is there but cannot be executed */
    EXIT_NOT_FOUND = 127,      /* CMD is not there */
    EXIT_SIGNAL = 128          /* + n: ended by signal n */
};

#endif
