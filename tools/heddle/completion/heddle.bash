# SPDX-License-Identifier: MIT
# Completion of heddle(1) for bash.
_heddle() {
    local commands='sim explore replay shrink show diff verify doctor help'
    local samplers='random fair cohort pct:3 pos urw'
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$commands --help --version" -- "$current"))
        return
    fi
    case $previous in
    --sampler)
        [[ ${COMP_WORDS[1]} == explore ]] && samplers="$samplers portfolio all:2"
        COMPREPLY=($(compgen -W "$samplers" -- "${current#:}"))
        return
        ;;
    --kind)
        COMPREPLY=($(compgen -W 'choice draw fault spawn step wait wake end time warning note
            assert verdict' -- "$current"))
        return
        ;;
    --seed | --seeds | --schedules | --time | --steps | --jobs | --until | --task | --object | \
        --from | --to | --replays)
        return
        ;;
    esac
    case ${COMP_WORDS[1]} in
    sim) options='--seed --seeds --sampler --jobs --output --json' ;;
    explore)
        options='--sampler --seed --schedules --time --steps --fork --clock --keep-going
            --ignore-results --allow-stale --jobs --output --json'
        ;;
    replay) options='--until --back --gdb --json' ;;
    shrink) options='--output --replays --json' ;;
    show) options='--task --object --from --to --kind --trace --json' ;;
    diff | verify | doctor) options='--json' ;;
    help)
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
        return
        ;;
    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _heddle heddle
