/* completion_zsh.c - what zsh's _arguments wants to know of each option. */
#include <stdio.h>

#include "completion.h"

static const char begin[] =
    "#compdef zklock\n"
    "# zsh completion of zklock, made from its own tables by 'zklock completion zsh'\n"
    "\n"
    "_zklock() {\n"
    "    local curcontext=$curcontext state line\n"
    "    typeset -A opt_args\n"
    "    local -a commands\n";

/* Options end with the first other word, as for zklock itself: -A '-*'. */
static const char choose[] = "        '1:subcommand:->command' '*::word:->words'\n"
                             "    case $state in\n"
                             "    command) _describe -t commands subcommand commands ;;\n"
                             "    words)\n"
                             "        curcontext=\"${curcontext%:*}-$words[1]:\"\n"
                             "        case $words[1] in\n"
                             "        help) _describe -t commands subcommand commands ;;\n";

static const char end[] = "        esac ;;\n"
                          "    esac\n"
                          "}\n"
                          "\n"
                          "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
                          "    _zklock \"$@\"\n"
                          "else\n"
                          "    compdef _zklock zklock\n"
                          "fi\n";

/* NAME[text]:VALUE:action, in quotes; behind it a line goes on. */
static void print_spec(const char *indent, const char *name, const char *joint,
                       const struct poptOption *option)
{
    printf("%s'%s%s[", indent, name, option->argDescrip ? joint : "");
    completion_print(option->descrip, "[]\\", "'\\''");
    putchar(']');
    if (option->argDescrip) {
        putchar(':');
        completion_print(option->argDescrip, ":\\", "'\\''");
        printf(":%s", completion_is_file(option) ? "_files" : " ");
    }
    fputs("' \\\n", stdout);
}

static void print_options(const char *indent, const struct poptOption *list)
{
    char name[64];
    for (; list->longName; list++) {
        if (list->shortName) {
            snprintf(name, sizeof name, "-%c", list->shortName);
            print_spec(indent, name, "+", list);
        }
        snprintf(name, sizeof name, "--%s", list->longName);
        print_spec(indent, name, "=", list);
    }
}

static void print_branch(const struct cli_command *command)
{
    static const char indent[] = "            ";
    printf("        %s)\n            _arguments -s -A '-*' \\\n", command->name);
    print_options(indent, command->options);
    print_options(indent, cli_global_options);
    printf("%s'*: :%s' ;;\n", indent, completion_before_command(command) < 0 ? " " : "_files");
}

void completion_zsh(void)
{
    fputs(begin, stdout);
    puts("    commands=(\n        'help:this text'");
    for (int i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden) {
            printf("        '%s:", cli_commands[i]->name);
            completion_print(cli_commands[i]->summary, "\\", "'\\''");
            puts("'");
        }
    }
    puts("    )\n    _arguments -C -s -A '-*' \\");
    print_options("        ", cli_global_options);
    fputs(choose, stdout);
    for (int i = 0; cli_commands[i]; i++) {
        if (!cli_commands[i]->hidden) {
            print_branch(cli_commands[i]);
        }
    }
    fputs(end, stdout);
}
