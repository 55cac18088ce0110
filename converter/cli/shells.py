"""Completion in bash, zsh and fish: the scripts, and what they ask for.

A script hands over the line up to the cursor, and gets a candidate a line: its kind (``plain``,
``file`` or ``dir``), its help, and its value, between tabs. ``file`` and ``dir`` have the shell add
what lies on the disk. Candidates are whole words, but for what the shell takes as a word's
beginning: bash breaks words at colons and equal signs, the others at the sign of ``--out=FILE``.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

_BASH = """\
FUNCTION() {
    local IFS=$'\\n' cur kind value item place=
    cur=${COMP_LINE:0:COMP_POINT}
    local response=$(COMP_WORDS="$cur" COMP_BREAKS="$COMP_WORDBREAKS" \
_MODELYARD_COMPLETE=bash_complete "${1/#\\~/$HOME}" 2>/dev/null)
    cur=${COMP_WORDS[COMP_CWORD]}
    [[ $cur == [:=] ]] && cur=
    COMPREPLY=()
    for item in $response; do
        kind=${item%%$'\\t'*} value=${item##*$'\\t'}
        case $kind in
            plain) COMPREPLY+=("$value"); [[ $value == *: ]] && compopt -o nospace ;;
            file | dir) place=$kind ;;
        esac
    done
    if [[ $place == file && ${#COMPREPLY} -gt 0 ]]; then
        COMPREPLY+=($(compgen -f -- "$cur"))
        compopt -o filenames
    elif [[ $place == file ]]; then
        compopt -o default
    elif [[ $place == dir ]]; then
        compopt -o dirnames
    fi
}
complete -o nosort -F FUNCTION modelyard
"""

_ZSH = """\
#compdef modelyard
FUNCTION() {
    local -a plain open described
    local line kind help value
    local response="$(COMP_WORDS="${(j: :)words[1,CURRENT]}" _MODELYARD_COMPLETE=zsh_complete \
$words[1] 2>/dev/null)"
    [[ $words[CURRENT] == --*=* ]] && compset -P '*='
    for line in ${(f)response}; do
        kind=${line%%$'\\t'*} value=${line##*$'\\t'}
        help=${${line#*$'\\t'}%$'\\t'*}
        case $kind in
            plain) if [[ -n $help ]]; then described+=("${value//:/\\\\:}:$help")
                elif [[ $value == *: ]]; then open+=("$value")
                else plain+=("$value"); fi ;;
            file) _path_files -f ;;
            dir) _path_files -/ ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described
    (( $#open )) && compadd -S '' -a open
    (( $#plain )) && compadd -V unsorted -a plain
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    FUNCTION "$@"
else
    compdef FUNCTION modelyard
fi
"""

_FISH = """\
function FUNCTION
    set -l token (commandline -ct)
    set -l head (string match -r -- '^--[^=]*=' $token)
    set -l words (commandline -opc)
    set -l response (env COMP_WORDS=(commandline -cp | string collect) \
_MODELYARD_COMPLETE=fish_complete $words[1] 2>/dev/null)
    for line in $response
        set -l parts (string split -m 2 \\t -- $line)
        switch $parts[1]
            case plain
                printf '%s%s\\t%s\\n' "$head" $parts[3] $parts[2]
            case file
                printf "$head%s\\n" (__fish_complete_path $parts[3])
            case dir
                printf "$head%s\\n" (__fish_complete_directories $parts[3])
        end
    end
end
complete --no-files --command modelyard --arguments "(FUNCTION)"
"""


class _Shell(ShellComplete):
    """A shell that hands over the line."""

    def source(self) -> str:
        return self.source_template.replace("FUNCTION", "_modelyard_completion")

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one at the cursor, without the command, and that one."""
        line = os.environ.get("COMP_WORDS", "")
        words = split_arg_string(line)
        at_cursor = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], at_cursor

    def format_completion(self, item: CompletionItem[Any]) -> str:
        help = " ".join((item.help or "").split())
        return f"{item.type}\t{help}\t{item.value}"


class Bash(_Shell):
    """bash 4.4 and newer."""

    name = "bash"
    source_template = _BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """The part of the candidate behind the sign that bash has broken the word at."""
        _, word = self.get_completion_args()
        value = str(item.value)
        if item.type == "plain" and word.startswith("-") and "=" in word:
            value = word[: word.index("=") + 1] + value
        breaks = [sign for sign in ":=" if sign in os.environ.get("COMP_BREAKS", ":=")]
        end = max((word.rfind(sign) for sign in breaks), default=-1) + 1
        if item.type == "plain" and value.startswith(word[:end]):
            value = value[end:]
        return f"{item.type}\t\t{value}"


class Zsh(_Shell):
    """zsh 5 and newer."""

    name = "zsh"
    source_template = _ZSH


class Fish(_Shell):
    """fish 3 and newer."""

    name = "fish"
    source_template = _FISH


SHELLS: dict[str, type[ShellComplete]] = {shell.name: shell for shell in (Bash, Zsh, Fish)}
