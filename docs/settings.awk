# Turns oxicloudd.conf.example into the README's table or into oxicloudd.conf(5):
#     awk -v form=table|manual -f docs/settings.awk oxicloudd.conf.example
# In the example each setting is a paragraph: what it means, "It must be ...", "#key = default".

function roff(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}

function heading(title) {
    if (form == "manual") {
        printf ".SS %s\n", title
        return
    }
    printf "%s**%s**\n\n", (titles++ ? "\n" : ""), title
    print "| key | default | meaning | allowed |"
    print "| --- | --- | --- | --- |"
}

function setting(key, standard) {
    gsub(/\|/, "\\|", help)
    if (form == "manual")
        printf ".TP\n\\fB%s\\fR = %s\n%s It must be %s\n", roff(key),
            standard == "" ? "(empty)" : roff(standard), roff(help), roff(allowed) "."
    else
        printf "| `%s` | %s | %s | %s |\n", key, standard == "" ? "(empty)" : "`" standard "`",
            help, allowed
}

BEGIN {
    if (form != "table" && form != "manual") {
        print "form must be table or manual" > "/dev/stderr"
        exit 1
    }
}

/^$/ { help = allowed = ""; next }
/^# ---- / { gsub(/^# -+ | -+$/, ""); heading($0); next }
/^# It must be / { gsub(/^# It must be |\.$/, ""); allowed = $0; next }
/^# / { sub(/^# /, ""); help = help (help == "" ? "" : " ") $0; next }
/^#[a-z]/ {
    at = index($0, " =")
    setting(substr($0, 2, at - 2), substr($0, at + 3))
}
