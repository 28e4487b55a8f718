/* completion_fish.c - one `complete` for each option of each subcommand. */
#include <stdio.h>

#include "completion.h"

static const char begin[] =
    "# fish completion of zklock, made from its own tables by 'zklock completion fish'\n"
    "\n"
    "# Of a subcommand, and of none: the options that take a value; how many words come\n"
    "# before its CMD, -1: it has none.\n"
    "function __zklock_valued\n"
    "    switch \"$argv[1]\"\n";

static const char before[] = "    end\n"
                             "end\n"
                             "function __zklock_before\n"
                             "    switch \"$argv[1]\"\n";

static const char walk[] =
    "    end\n"
    "end\n"
    "\n"
    "# Goes over the words before the cursor, as zklock does. Prints the subcommand, or '-' when "
    "there is\n"
    "# none yet; how many words follow its options; then the words of CMD so far.\n"
    "function __zklock_words\n"
    "    set -l words (commandline -opc)\n"
    "    set -l command\n"
    "    set -l operands 0\n"
    "    set -l before -1\n"
    "    set -l i 2\n"
    "    while test $i -le (count $words)\n"
    "        set -l word $words[$i]\n"
    "        if test \"x$word\" = x--; and test $before -eq $operands\n"
    "            printf '%s\\n' $command cmd $words[(math $i + 1)..-1]\n"
    "            return\n"
    "        else if string match -q -- '-*' $word; and test $operands -eq 0\n"
    "            if contains -- $word (__zklock_valued $command)\n"
    "                set i (math $i + 1)\n"
    "            end\n"
    "        else if test -z \"$command\"\n"
    "            set command $word\n"
    "            set before (__zklock_before $command)\n"
    "        else if test $before -ge 0 -a $before -eq $operands\n"
    "            printf '%s\\n' $command cmd $words[$i..-1]\n"
    "            return\n"
    "        else\n"
    "            set operands (math $operands + 1)\n"
    "        end\n"
    "        set i (math $i + 1)\n"
    "    end\n"
    "    test -n \"$command\"; or set command -\n"
    "    if test $before -gt 0 -a $before -eq $operands\n"
    "        printf '%s\\n' $command cmd\n"
    "    else\n"
    "        printf '%s\\n' $command $operands\n"
    "    end\n"
    "end\n"
    "function __zklock_in\n"
    "    set -l words (__zklock_words)\n"
    "    test \"$words[1]\" = $argv[1] -a \"$words[2]\" = 0\n"
    "end\n"
    "function __zklock_options\n"
    "    set -l words (__zklock_words)\n"
    "    test \"$words[2]\" = 0\n"
    "end\n"
    "function __zklock_at_cmd\n"
    "    set -l words (__zklock_words)\n"
    "    test \"$words[2]\" = cmd\n"
    "end\n"
    "function __zklock_cmd\n"
    "    set -l words (__zklock_words)\n"
    "    complete -C (string join -- ' ' (string escape -- $words[3..-1]) (commandline -ct))\n"
    "end\n"
    "\n"
    "complete -c zklock -f\n"
    "complete -c zklock -n __zklock_at_cmd -a '(__zklock_cmd)'\n";

static void print_valued(const struct poptOption *list)
{
    for (; list->longName; list++) {
        if (list->argDescrip && list->shortName) {
            printf(" -%c", list->shortName);
        }
        if (list->argDescrip) {
            printf(" --%s", list->longName);
        }
    }
}

static void print_tables(void)
{
    fputs(begin, stdout);
    for (int i = 0; cli_commands[i]; i++) {
        printf("    case %s\n        printf '%%s\\n'", cli_commands[i]->name);
        print_valued(cli_commands[i]->options);
        print_valued(cli_global_options);
        putchar('\n');
    }
    fputs("    case '*'\n        printf '%s\\n'", stdout);
    print_valued(cli_global_options);
    putchar('\n');
    fputs(before, stdout);
    for (int i = 0; cli_commands[i]; i++) {
        printf("    case %s\n        echo %d\n", cli_commands[i]->name,
               completion_before_command(cli_commands[i]));
    }
    puts("    case '*'\n        echo -1");
    fputs(walk, stdout);
}

static void print_text(const char *text)
{
    fputs(" -d '", stdout);
    completion_print(text, "\\", "\\'");
    puts("'");
}

static void print_options(const char *when, const struct poptOption *list)
{
    for (; list->longName; list++) {
        printf("complete -c zklock -n '%s'", when);
        if (list->shortName) {
            printf(" -s %c", list->shortName);
        }
        printf(" -l %s%s", list->longName,
               completion_is_file(list) ? " -r -F"
               : list->argDescrip       ? " -x"
                                        : "");
        print_text(list->descrip);
    }
}

void completion_fish(void)
{
    print_tables();
    print_options("__zklock_options", cli_global_options);
    for (int i = 0; cli_commands[i]; i++) {
        char when[64];
        if (cli_commands[i]->hidden) {
            continue;
        }
        printf("complete -c zklock -n '__zklock_in -; or __zklock_in help' -a %s",
               cli_commands[i]->name);
        print_text(cli_commands[i]->summary);
        snprintf(when, sizeof when, "__zklock_in %s", cli_commands[i]->name);
        print_options(when, cli_commands[i]->options);
    }
    puts("complete -c zklock -n '__zklock_in -' -a help");
}
