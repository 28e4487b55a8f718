#!/bin/sh
# blocks.sh LANGUAGE FILE: the blocks of that language in a Markdown file.
exec awk -v fence="\`\`\`$1" '$0 == fence {on = 1; next} /^```/ {on = 0} on' "$2"
