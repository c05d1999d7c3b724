/*
 * foreign_words.c - words of other languages, where no name can stand
 */
#include "frontend/syntax/parse_impl.h"

#include <string.h>
#include "frontend/syntax/gram.tab.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static const char no_import[] =
    "leave such lines out: functions are there without them; layers and "
    "optimizers are there after a line use nn, optim";

static const struct {
    const char *word, *note;
} foreign_words[] = {
    {"def", "a function is fn f(x) { ... }"},
    {"func", "a function is fn f(x) { ... }"},
    {"function", "a function is fn f(x) { ... }"},
    {"lambda", "a function without a name is fn(x) = ..."},
    {"elif", "write else if behind the } of the branch before"},
    {"elseif", "did you mean else if?"},
    {"import", no_import},
    {"include",
     "use nn takes a module of the library, use \"mine.tfd\" a file"},
    {"from", no_import},
    {"is", "write == in place of is"},
    {"try", "a mistake ends the program: leave it out"},
    {"class", "did you mean module?"},
    {"struct", "did you mean module?"},
    {"foreach", "did you mean for?"},
    {"with",
     "leave it out, and the braces of its block: all of a file is in the scope "
     "of its strategy, only what grad(loss, vars) is asked for has gradients, "
     "and stop_gradient(x) has none"},
};

/* The word of a token that is a name, or the reserved "with". */
static const char *
word_of(const FeToken *t)
{
    return t->kind == T_NAME ? t->text : t->kind == T_WITH ? "with" : "";
}

/* The head of a function as it stands behind def: "step(e)"; NULL if it is not
 * on that line. */
static const char *
head_behind(FeParser *ps, const FeToken *def)
{
    const char *from = ps->text + def->place.end;
    const char *end = ps->text + ps->len;
    while (from < end && *from == ' ')
        from++;
    const char *at = from;
    while (at < end && *at != '\n' && *at != ')')
        at++;
    return at < end && *at == ')'
               ? arena_printf(ps->arena, "%.*s", (int)(at + 1 - from), from)
               : NULL;
}

/* fn(x) = of lambda x: */
static const char *
lambda_head(FeParser *ps, const FeToken *t)
{
    const char *rest = fe_rest_of_line(ps, t->place.end);
    size_t n = strcspn(rest, ":");
    rest += strspn(rest, " ");
    return rest[0] && n ? arena_printf(ps->arena,
                                       "write fn(%.*s) = in place of "
                                       "lambda %.*s:",
                                       (int)strcspn(rest, ":"), rest,
                                       (int)strcspn(rest, ":"), rest)
                        : NULL;
}

/* == none of "is None", != none of "is not None". */
static const char *
none_behind(FeParser *ps, const FeToken *is)
{
    const char *rest = fe_rest_of_line(ps, is->place.end);
    rest += strspn(rest, " ");
    bool is_not = strncmp(rest, "not ", 4) == 0;
    if (is_not)
        rest += 4 + strspn(rest + 4, " ");
    return strncmp(rest, "None", 4) == 0
               ? arena_printf(ps->arena, "write %s none in place of is %sNone",
                              is_not ? "!=" : "==", is_not ? "not " : "")
               : NULL;
}

static void
note_foreign(FeParser *ps, const FeToken *t, const char *note)
{
    bool is_function = strncmp(note, "a function is", 13) == 0;
    const char *head = is_function ? head_behind(ps, t) : NULL;
    const char *whole = strcmp(word_of(t), "lambda") == 0 ? lambda_head(ps, t)
                        : strcmp(word_of(t), "is") == 0   ? none_behind(ps, t)
                                                          : NULL;
    if (whole)
        fe_note(ps, t->place, "%s", whole);
    else if (head)
        fe_note(ps, t->place,
                "write fn %s {, and } behind the last line of the function",
                head);
    else
        fe_note(ps, t->place, "%s", note);
}

void
fe_note_names(FeParser *ps, bool wants_value, bool wants_colon, bool in_tuple)
{
    const char *rest = fe_rest_of_line(ps, ps->last.place.end);
    bool is_dict =
        ps->last.kind == T_LBRACE && wants_value && strchr(rest, ':');
    if (is_dict)
        fe_note(ps, ps->last.place,
                "values with names stand in parentheses: (loss: x, count: n), "
                "and are t.loss and t.count of a t");
    else if (ps->last.kind == T_ASSIGN && wants_colon)
        fe_note(ps, ps->last.place,
                in_tuple
                    ? "a colon stands behind the name of a field: (%s: x, ...)"
                    : "its type stands behind the name: %s: f32 = ...",
                word_of(&ps->before_last));
}

bool
fe_report_foreign_word(FeParser *ps)
{
    bool two_names = ps->last.kind == T_NAME && ps->before_last.kind == T_NAME;
    for (int i = 0; i < COUNT(foreign_words); i++) {
        const char *word = foreign_words[i].word;
        const FeToken *t = strcmp(word_of(&ps->last), word) == 0 ? &ps->last
                           : two_names ? &ps->before_last
                                       : NULL;
        if (!t || strcmp(word_of(t), word) != 0)
            continue;
        fe_syntax_error(ps, t->place, "there is no \"%s\" in this language",
                        word);
        note_foreign(ps, t, foreign_words[i].note);
        return true;
    }
    return false;
}
