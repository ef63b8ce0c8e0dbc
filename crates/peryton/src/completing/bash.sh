_peryton_complete() {
    local IFS=$'\013'
    local words=("${COMP_WORDS[@]}")
    # Bash takes KEY=VALUE apart. Peryton puts it together again, and needs the "=" for that.
    [[ "${words[COMP_CWORD]}" == "=" ]] || words[COMP_CWORD]="$2"
    COMPREPLY=($(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX="$COMP_CWORD" PERYTON_COMPLETE="bash" COMPLETER -- "${words[@]}"))
    # A key goes on with its value, and a folder with its files.
    if [[ "${COMPREPLY-}" =~ [=/]$ ]]; then
        compopt -o nospace 2> /dev/null
    fi
    return 0
}
complete -o bashdefault -F _peryton_complete peryton
