# Completion of `computer` for bash: what `computer completion bash` prints.
_computer()
{
	local words
	words=$(computer complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) || return
	if [ -n "$words" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
	fi
}
complete -F _computer computer
