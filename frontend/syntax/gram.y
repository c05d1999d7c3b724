/*
 * gram.y - tokens to tree
 *
 * The grammar of docs/language.md, without a conflict.  Actions build nodes and
 * nothing else: checks are in build.c, messages in syntax_error.c, and the
 * meaning of newlines in tokens.c.
 *
 * An operand is an expression of operators; lambdas and ifs stand only where a
 * whole expression does, since they reach as far to the right as they can.  No
 * expression begins or continues with "{", so that a block ends what stands
 * before it.
 */
%define api.pure full
%define api.prefix {fe_gram_}
%define api.token.prefix {T_}
%define api.location.type {FePlace}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param {FeParser *ps}
%initial-action { (void)yynerrs; /* bison counts, Diag does too */ }

%code requires {
#include "frontend/syntax/parse_impl.h"
}

%code provides {
/* In tokens.c. */
int fe_gram_lex(FE_GRAM_STYPE *value, FePlace *place, FeParser *ps);
}

%code {
static void fe_gram_error(const FePlace *place, FeParser *ps,
                          const char *message);

static inline FePlace
join_places(FePlace first, FePlace last)
{
    first.end_line = last.end_line;
    first.end = last.end;
    return first;
}

/* The place after a token, where nothing was written. */
static inline FePlace
empty_place(FePlace before)
{
    before.col += before.end - before.start;
    before.line = before.end_line;
    before.start = before.end;
    return before;
}

#define YYLLOC_DEFAULT(Current, Rhs, N)                                        \
    ((Current) = (N) ? join_places(YYRHSLOC(Rhs, 1), YYRHSLOC(Rhs, N))         \
                     : empty_place(YYRHSLOC(Rhs, 0)))

/* The deepest program of as many brackets as there may be needs about half of it. */
#define YYMAXDEPTH 10000

#define MAKE(place, KIND, member, ...)                                         \
    FE_NODE(ps, place, KIND, member, __VA_ARGS__)
#define LEAF(place, KIND) FE_LEAF(ps, place, KIND)
#define NAME(place, text) MAKE(place, NAME, name, text)
#define BINARY(place, OP, a, b) fe_make_binary(ps, place, AST_OP_##OP, a, b)
#define NO_LIST ((AstList){0})
}

%union {
    const char *text;
    AstNode *node;
    AstList list;
    AstOp op;
}

/* The names are those of messages. */
%token END 0 "the end of the file"
%token RESYNC "a new start" /* follows an error; see tokens.c */
%token WRONG "a wrong word" /* stands nowhere: scan.l has reported it */
%token NEWLINE "the end of the line"
%token SEMICOLON ";"
%token <text> NAME "a name"
%token <text> INT "a number"
%token <text> FLOAT "a number with a dot"
%token STRING_BEGIN "a string"
%token <text> TEXT "text of the string"
%token HOLE_BEGIN "a hole"
%token HOLE_END "the } of the hole"
%token STRING_END "the end of the string"
%token <text> FORMAT "a format"

%token AND "and" BREAK "break" CONST "const" CONTINUE "continue" ELSE "else"
%token FALSE "false" FN "fn" FOR "for" IF "if" IN "in" LET "let" MAIN "main"
%token MERGE "merge" MODULE "module" MUT "mut" NONE "none" NOT "not" OR "or"
%token PARAM "param" RETURN "return" TRUE "true" USE "use" VAR "var"
%token WHILE "while" WITH "with"
%token DATASET "dataset" STRATEGY "strategy" SLOT "slot" NON_SLOT "non_slot"
%token COLOCATE "colocate" UPDATE "update" RUN "run" SCHEDULE "schedule"

%token LPAREN "(" RPAREN ")" LSQUARE "[" RSQUARE "]" LBRACE "{" RBRACE "}"
%token COMMA "," COLON ":" DOT "." DOTDOT ".." ELLIPSIS "..."
%token ASSIGN "=" ADD_ASSIGN "+=" SUB_ASSIGN "-=" MUL_ASSIGN "*="
%token DIV_ASSIGN "/="
%token EQ "==" NE "!=" LT "<" LE "<=" GT ">" GE ">="
%token PLUS "+" MINUS "-" STAR "*" SLASH "/" FLOORDIV "//" PERCENT "%"
%token MATMUL "@" POW "**"

%left OR
%left AND
%precedence NOT
%left EQ NE LT LE GT GE
%left PLUS MINUS
%left STAR SLASH FLOORDIV PERCENT MATMUL
%precedence NEG
%right POW

%type <list> decls used clauses clause_list formals formal_list merge_args
%type <list> merge_list members member_list dims block_list stmts
%type <list> args arg_list exprs tuple_items named_list indices pieces patterns
%type <list> opt_args opt_formals
%type <node> decl use used_item const param strategy var variable slot dataset
%type <node> fn with_grad fn_body module main colocate let member choice type clause
%type <node> formal opt_type opt_default merge_arg
%type <node> block stmt mut assign for while if cond update iter
%type <node> pattern expr operand postfix atom lambda string piece list
%type <node> arg named index opt_operand merge callee opt_if
%type <op> assign_op

%%

/* ---- declarations ------------------------------------------------------- */

file:
    decls                       { ps->program = MAKE(@$, PROGRAM, program, $1); }
;
decls:
    %empty                      { $$ = NO_LIST; }
  | decls decl sep              { $$ = fe_append(ps, $1, $2); }
  | decls error RESYNC          { $$ = $1; yyerrok; }
;
sep:
    NEWLINE
  | SEMICOLON
;
decl:
    use
  | const
  | param
  | strategy
  | var
  | dataset
  | fn
  | module
  | let
  | main
  | colocate
;

use:
    USE used                    { $$ = fe_use(ps, @1, $2); }
;
used:
    used_item                   { $$ = fe_list(ps, $1); }
  | used COMMA used_item        { $$ = fe_append(ps, $1, $3); }
;
used_item:
    NAME                        { $$ = NAME(@$, $1); }
  | string
;

const:
    CONST NAME ASSIGN expr      { $$ = MAKE(@2, CONST, const_, $2, $4); }
;
param:
    PARAM NAME COLON type ASSIGN expr
        { $$ = MAKE(@2, PARAM, param, $2, $4, $6); }
;
strategy:
    STRATEGY NAME opt_args      { $$ = MAKE(@2, STRATEGY, strategy, $2, $3); }
;
opt_args:
    %empty                      { $$ = NO_LIST; }
  | LPAREN args RPAREN          { $$ = $2; }
;
dataset:
    DATASET NAME ASSIGN expr    { $$ = MAKE(@2, DATASET, dataset, $2, $4); }
;
slot:
    SLOT NAME opt_type ASSIGN expr
        { $$ = MAKE(@2, SLOT, slot, $2, $3, $5); }
;

var:
    variable
  | NON_SLOT variable           { $$ = $2; $$->var.non_slot = true; }
;
variable:
    VAR NAME COLON type ASSIGN expr clauses
        {
            AstNode from = {.kind = AST_VAR,
                            .var = {.name = $2, .type = $4, .init = $6}};
            $$ = fe_var(ps, @2, from, $7);
        }
;
clauses:
    %empty                      { $$ = NO_LIST; }
  | clause_list
;
clause_list:
    clause                      { $$ = fe_list(ps, $1); }
  | clause_list clause          { $$ = fe_append(ps, $1, $2); }
;
clause:
    NAME                        { $$ = NAME(@$, $1); }
  | NAME LPAREN args RPAREN
        { $$ = MAKE(@$, CALL, call, NAME(@1, $1), $3); }
;

type:
    NAME                        { $$ = MAKE(@$, TYPE, type, $1, NO_LIST); }
  | NAME LSQUARE dims opt_comma RSQUARE
        { $$ = MAKE(@$, TYPE, type, $1, $3); }
;
dims:
    operand                     { $$ = fe_list(ps, $1); }
  | dims COMMA operand          { $$ = fe_append(ps, $1, $3); }
;

fn:
    FN NAME LPAREN formals RPAREN fn_body with_grad
        { $$ = MAKE(@2, FN, fn, $2, $4, $6, $7); }
;
fn_body:
    ASSIGN expr                 { $$ = $2; }
  | block
;
with_grad:
    %empty                      { $$ = NULL; }
  | WITH NAME LPAREN formals RPAREN fn_body
        {
            fe_expect_word(ps, @2, $2, "grad");
            $$ = MAKE(@2, FN, fn, $2, $4, $6, NULL);
        }
;
formals:
    %empty                      { $$ = NO_LIST; }
  | formal_list opt_comma
;
formal_list:
    formal                      { $$ = fe_list(ps, $1); }
  | formal_list COMMA formal    { $$ = fe_append_formal(ps, @3, $1, $3); }
;
formal:
    NAME opt_type opt_default   { $$ = MAKE(@1, FORMAL, formal, $1, $2, $3); }
;
opt_type:
    %empty                      { $$ = NULL; }
  | COLON type                  { $$ = $2; }
;
opt_default:
    %empty                      { $$ = NULL; }
  | ASSIGN expr                 { $$ = $2; }
;

module:
    MODULE NAME opt_formals LBRACE members RBRACE
        { $$ = MAKE(@2, MODULE, module, $2, $3, $5); }
;
opt_formals:
    %empty                      { $$ = NO_LIST; }
  | LPAREN formals RPAREN       { $$ = $2; }
;
members:
    %empty                      { $$ = NO_LIST; }
  | member_list opt_sep
;
member_list:
    member                      { $$ = fe_list(ps, $1); }
  | member_list sep member      { $$ = fe_append(ps, $1, $3); }
;
member:
    var
  | slot
  | colocate
  | let
  | fn
  | choice
;
choice:
    IF cond LBRACE members RBRACE
        { $$ = MAKE(@$, CHOICE, choice, $2, $4, NO_LIST); }
  | IF cond LBRACE members RBRACE ELSE LBRACE members RBRACE
        { $$ = MAKE(@$, CHOICE, choice, $2, $4, $8); }
  | IF cond LBRACE members RBRACE ELSE choice
        { $$ = MAKE(@$, CHOICE, choice, $2, $4, fe_list(ps, $7)); }
;
colocate:
    COLOCATE postfix LBRACE members RBRACE
        { $$ = fe_colocate(ps, @2, $2, $4); }
;
main:
    MAIN block                  { $$ = MAKE(@1, MAIN, main, $2); }
  | MAIN NAME block
        {
            fe_expect_word(ps, @2, $2, "evaluate");
            $$ = MAKE(@1, EVALUATE, evaluate, $3);
        }
;
let:
    LET pattern opt_type ASSIGN expr
        { $$ = MAKE(@$, LET, let, $2, $3, $5); }
;

/* ---- statements --------------------------------------------------------- */

block:
    LBRACE block_list RBRACE    { $$ = MAKE(@$, BLOCK, block, $2); }
;
block_list:
    %empty                      { $$ = NO_LIST; }
  | stmts opt_sep
;
opt_sep:
    %empty
  | sep
;
stmts:
    stmt                        { $$ = fe_list(ps, $1); }
  | stmts sep stmt              { $$ = fe_append(ps, $1, $3); }
;
stmt:
    let
  | mut
  | fn
  | assign
  | for
  | while
  | RETURN                      { $$ = MAKE(@$, RETURN, return_, NULL); }
  | RETURN expr                 { $$ = MAKE(@$, RETURN, return_, $2); }
  | BREAK                       { $$ = LEAF(@$, BREAK); }
  | CONTINUE                    { $$ = LEAF(@$, CONTINUE); }
  | expr
;

mut:
    MUT pattern opt_type ASSIGN expr
        { $$ = MAKE(@$, MUT, mut, $2, $3, $5); }
;
assign:
    operand assign_op expr      { $$ = fe_make_assign(ps, @$, $2, $1, $3); }
;
assign_op:
    ASSIGN                      { $$ = AST_OP_NONE; }
  | ADD_ASSIGN                  { $$ = AST_OP_ADD; }
  | SUB_ASSIGN                  { $$ = AST_OP_SUB; }
  | MUL_ASSIGN                  { $$ = AST_OP_MUL; }
  | DIV_ASSIGN                  { $$ = AST_OP_DIV; }
;
for:
    FOR pattern IN iter block   { $$ = MAKE(@$, FOR, for_, $2, $4, $5); }
;
iter:
    operand
  | operand DOTDOT operand      { $$ = MAKE(@$, RANGE, range, $1, $3); }
;
while:
    WHILE cond block            { $$ = MAKE(@$, WHILE, while_, $2, NULL, $3); }
  | WHILE cond NAME operand block
        {
            fe_expect_word(ps, @3, $3, "max");
            $$ = MAKE(@$, WHILE, while_, $2, $4, $5);
        }
;
if:
    IF cond block               { $$ = MAKE(@$, IF, if_, $2, $3, NULL); }
  | IF cond block ELSE block    { $$ = MAKE(@$, IF, if_, $2, $3, $5); }
  | IF cond block ELSE if       { $$ = MAKE(@$, IF, if_, $2, $3, $5); }
;
cond:
    operand
  | operand ASSIGN operand
        {
            fe_syntax_error(ps, @2, "= assigns: write == to compare");
            $$ = $1;
        }
;
update:
    UPDATE postfix block        { $$ = fe_make_update(ps, @$, $2, $3); }
;

pattern:
    NAME                        { $$ = NAME(@$, $1); }
  | LPAREN pattern RPAREN       { $$ = $2; }
  | LPAREN pattern COMMA RPAREN
        { $$ = MAKE(@$, TUPLE, tuple, fe_list(ps, $2)); }
  | LPAREN patterns opt_comma RPAREN
        { $$ = MAKE(@$, TUPLE, tuple, $2); }
;
patterns:
    pattern COMMA pattern       { $$ = fe_append(ps, fe_list(ps, $1), $3); }
  | patterns COMMA pattern      { $$ = fe_append(ps, $1, $3); }
;

/* ---- expressions -------------------------------------------------------- */

expr:
    operand
  | lambda
  | if
;
lambda:
    FN LPAREN formals RPAREN fn_body
        { $$ = MAKE(@$, FN, fn, NULL, $3, $5, NULL); }
;

operand:
    postfix
  | operand OR operand          { $$ = BINARY(@$, OR, $1, $3); }
  | operand AND operand         { $$ = BINARY(@$, AND, $1, $3); }
  | NOT operand
        { $$ = MAKE(@$, UNARY, unary, AST_OP_NOT, $2); }
  | operand EQ operand          { $$ = BINARY(@$, EQ, $1, $3); }
  | operand NE operand          { $$ = BINARY(@$, NE, $1, $3); }
  | operand LT operand          { $$ = BINARY(@$, LT, $1, $3); }
  | operand LE operand          { $$ = BINARY(@$, LE, $1, $3); }
  | operand GT operand          { $$ = BINARY(@$, GT, $1, $3); }
  | operand GE operand          { $$ = BINARY(@$, GE, $1, $3); }
  | operand PLUS operand        { $$ = BINARY(@$, ADD, $1, $3); }
  | operand MINUS operand       { $$ = BINARY(@$, SUB, $1, $3); }
  | operand STAR operand        { $$ = BINARY(@$, MUL, $1, $3); }
  | operand SLASH operand       { $$ = BINARY(@$, DIV, $1, $3); }
  | operand FLOORDIV operand    { $$ = BINARY(@$, FLOORDIV, $1, $3); }
  | operand PERCENT operand     { $$ = BINARY(@$, MOD, $1, $3); }
  | operand MATMUL operand      { $$ = BINARY(@$, MATMUL, $1, $3); }
  | operand POW operand         { $$ = BINARY(@$, POW, $1, $3); }
  | MINUS operand %prec NEG
        { $$ = MAKE(@$, UNARY, unary, AST_OP_NEG, $2); }
;

postfix:
    atom
  | postfix LPAREN args RPAREN  { $$ = MAKE(@$, CALL, call, $1, $3); }
  | postfix LSQUARE indices opt_comma RSQUARE
        { $$ = MAKE(@$, INDEX, index, $1, $3); }
  | postfix DOT NAME            { $$ = MAKE(@$, FIELD, field, $1, $3); }
  | postfix DOT INT             { $$ = fe_element(ps, @$, $1, $3, @3); }
;

atom:
    NAME                        { $$ = NAME(@$, $1); }
  | INT                         { $$ = MAKE(@$, NUMBER, number, $1, false); }
  | FLOAT                       { $$ = MAKE(@$, NUMBER, number, $1, true); }
  | TRUE                        { $$ = MAKE(@$, BOOL, boolean, true); }
  | FALSE                       { $$ = MAKE(@$, BOOL, boolean, false); }
  | NONE                        { $$ = LEAF(@$, NONE); }
  | string
  | list
  | LPAREN expr RPAREN          { $$ = $2; $$->in_parens = true; }
  | LPAREN RPAREN               { $$ = MAKE(@$, TUPLE, tuple, NO_LIST); }
  | LPAREN tuple_items RPAREN   { $$ = MAKE(@$, TUPLE, tuple, $2); }
  | LPAREN named_list opt_comma RPAREN
        { $$ = MAKE(@$, NAMED_TUPLE, named_tuple, $2); }
  | RUN callee LPAREN args RPAREN
        {
            FePlace place = join_places(@2, @5);
            $$ = MAKE(@$, RUN, run, MAKE(place, CALL, call, $2, $4));
        }
  | SCHEDULE callee LPAREN args RPAREN
        {
            FePlace place = join_places(@2, @5);
            $$ = MAKE(@$, SCHEDULE, schedule, MAKE(place, CALL, call, $2, $4));
        }
  | merge
  | update
;

/* The callee of run: the first "(" ends it. */
callee:
    NAME                        { $$ = NAME(@$, $1); }
  | callee DOT NAME             { $$ = MAKE(@$, FIELD, field, $1, $3); }
  | callee DOT INT              { $$ = fe_element(ps, @$, $1, $3, @3); }
  | callee LSQUARE indices opt_comma RSQUARE
        { $$ = MAKE(@$, INDEX, index, $1, $3); }
;

merge:
    MERGE LPAREN merge_args RPAREN block
        { $$ = MAKE(@$, MERGE, merge, $3, $5); }
;
merge_args:
    %empty                      { $$ = NO_LIST; }
  | merge_list opt_comma
;
merge_list:
    merge_arg                   { $$ = fe_list(ps, $1); }
  | merge_list COMMA merge_arg  { $$ = fe_append(ps, $1, $3); }
;
merge_arg:
    NAME opt_default            { $$ = MAKE(@1, FORMAL, formal, $1, NULL, $2); }
;

args:
    %empty                      { $$ = NO_LIST; }
  | arg_list opt_comma
;
arg_list:
    arg                         { $$ = fe_list(ps, $1); }
  | arg_list COMMA arg          { $$ = fe_add_arg(ps, $1, $3); }
;
arg:
    expr
  | NAME ASSIGN expr            { $$ = MAKE(@$, NAMED, named, $1, $3); }
;

tuple_items:
    expr COMMA                  { $$ = fe_list(ps, $1); }
  | expr COMMA exprs opt_comma
        { $$ = fe_prepend(ps, $1, $3); }
;
exprs:
    expr                        { $$ = fe_list(ps, $1); }
  | exprs COMMA expr            { $$ = fe_append(ps, $1, $3); }
;
opt_comma:
    %empty
  | COMMA
;
named_list:
    named                       { $$ = fe_list(ps, $1); }
  | named_list COMMA named      { $$ = fe_append(ps, $1, $3); }
;
named:
    NAME COLON expr             { $$ = MAKE(@$, NAMED, named, $1, $3); }
;

list:
    LSQUARE RSQUARE             { $$ = MAKE(@$, LIST, list, NO_LIST); }
  | LSQUARE exprs opt_comma RSQUARE
        { $$ = MAKE(@$, LIST, list, $2); }
  | LSQUARE expr FOR pattern IN iter opt_if RSQUARE
        { $$ = MAKE(@$, COMPREHENSION, comprehension, $2, $4, $6, $7); }
;
opt_if:
    %empty                      { $$ = NULL; }
  | IF cond                     { $$ = $2; }
;

indices:
    index                       { $$ = fe_list(ps, $1); }
  | indices COMMA index         { $$ = fe_append(ps, $1, $3); }
;
index:
    expr
  | ELLIPSIS                    { $$ = LEAF(@$, ELLIPSIS); }
  | opt_operand COLON opt_operand
        { $$ = MAKE(@$, SLICE, slice, $1, $3, NULL); }
  | opt_operand COLON opt_operand COLON opt_operand
        { $$ = MAKE(@$, SLICE, slice, $1, $3, $5); }
;
opt_operand:
    %empty                      { $$ = NULL; }
  | operand
;

string:
    STRING_BEGIN pieces STRING_END
        { $$ = MAKE(@$, STRING, string, $2); }
;
pieces:
    %empty                      { $$ = NO_LIST; }
  | pieces piece                { $$ = fe_append(ps, $1, $2); }
;
piece:
    TEXT                        { $$ = MAKE(@$, TEXT, text, $1); }
  | HOLE_BEGIN expr HOLE_END    { $$ = MAKE(@$, HOLE, hole, $2, NULL); }
  | HOLE_BEGIN expr COLON FORMAT HOLE_END
        { $$ = MAKE(@$, HOLE, hole, $2, $4); }
;

%%

static void
fe_gram_error(const FePlace *place, FeParser *ps, const char *message)
{
    (void)message; /* only ever "memory exhausted": the stack is full */
    fe_too_deep(ps, *place);
}

static int
yyreport_syntax_error(const yypcontext_t *context, FeParser *ps)
{
    yysymbol_kind_t kinds[YYNTOKENS];
    const char *names[YYNTOKENS];
    int n = yypcontext_expected_tokens(context, kinds, YYNTOKENS);
    for (int i = 0; i < n; i++)
        names[i] = yysymbol_name(kinds[i]);
    fe_unexpected(ps, names, n);
    return 0;
}
