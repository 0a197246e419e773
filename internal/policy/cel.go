package policy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"countersign"
)

// Bounds on expressions. The first two apply when the file is read, the others end
// an evaluation. An expression below evalCost takes microseconds, or milliseconds
// if it was written to be slow (BenchmarkCostLimit).
const (
	maxExpression = 4096 // code points
	maxNesting    = 50
	evalCost      = 20_000 // units of CEL: about one for each operation or ten bytes of text
	maxRegex      = 200    // instructions of a regular expression
	checkEvery    = 256    // rounds of a comprehension between two looks at the context
)

// noExpiry is what expiresAt is for an order that does not expire: the last
// second that CEL knows.
var noExpiry = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// variables are what expressions see of a request, under the names of
// PROTOCOL.md, Messages where it has them. A variable is read only where an
// expression gets to it; an error from reading it fails the expression.
var variables = map[string]struct {
	typ  *cel.Type
	read func(*Request) ref.Val
}{
	"amount":       {amountType, func(r *Request) ref.Val { return amountValue{r.Order.Details.Amount} }},
	"address":      {addressType, func(r *Request) ref.Val { return addressValue(r.Order.Details.Address) }},
	"symbol":       {cel.StringType, func(r *Request) ref.Val { return types.String(r.Order.Details.Symbol) }},
	"chainName":    {cel.StringType, func(r *Request) ref.Val { return types.String(r.Order.Details.ChainName) }},
	"tenantUserId": {cel.StringType, func(r *Request) ref.Val { return types.String(r.Order.TenantUserID) }},
	"callBackId":   {cel.StringType, func(r *Request) ref.Val { return types.String(r.Withdrawal.CallBackID) }},
	"labels":       {cel.MapType(cel.StringType, cel.StringType), celLabels},
	"risk":         {cel.IntType, celRisk},
	"now":          {cel.TimestampType, func(r *Request) ref.Val { return types.Timestamp{Time: r.Now} }},
	"createdAt":    {cel.TimestampType, func(r *Request) ref.Val { return types.Timestamp{Time: r.Order.Created} }},
	"expiresAt":    {cel.TimestampType, celExpiry},
}

func celLabels(r *Request) ref.Val {
	return types.NewStringStringMap(types.DefaultTypeAdapter, r.Order.Labels)
}

// riskLabel is the label that the variable risk is read from.
const riskLabel = "riskLevel"

// celRisk fails if the order has no risk label: an expression must not use an
// invented number.
func celRisk(r *Request) ref.Val {
	s, ok := r.Order.Labels[riskLabel]
	if !ok {
		return types.NewErr("the order has no label %s", riskLabel)
	}
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || n > 100 {
		return types.NewErr("label %s is no number from 0 to 100", riskLabel)
	}
	return types.Int(n)
}

func celExpiry(r *Request) ref.Val {
	if r.Order.Expires.IsZero() {
		return types.Timestamp{Time: noExpiry}
	}
	return types.Timestamp{Time: r.Order.Expires}
}

// bindings resolves the names of an expression: a variable of the request, or
// a list or hours of the file. Each variable is read at most once.
type bindings struct {
	request *Request
	named   map[string]ref.Val
	read    map[string]ref.Val
}

// ResolveName implements cel.Activation.
func (b *bindings) ResolveName(name string) (any, bool) {
	if v, ok := b.named[name]; ok {
		return v, true
	}
	if v, ok := b.read[name]; ok {
		return v, true
	}
	v, ok := variables[name]
	if !ok {
		return nil, false
	}
	value := v.read(b.request)
	if b.read == nil {
		b.read = make(map[string]ref.Val, 4)
	}
	b.read[name] = value
	return value, true
}

// Parent implements cel.Activation.
func (b *bindings) Parent() cel.Activation { return nil }

// baseEnv is what the environments of all files have in common. Making it costs
// more than a file, so it is made once.
var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
	opts := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxNesting),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals()),
	}
	for name, v := range variables {
		opts = append(opts, cel.Variable(name, v.typ))
	}
	opts = append(opts, amountLibrary()...)
	opts = append(opts, namedLibrary()...)
	return cel.NewEnv(opts...)
})

// expression is a compiled condition. It may be evaluated by several
// goroutines at once.
type expression struct{ program cel.Program }

// compile makes an expression of text. Its error is a *Error without
// Where.
func compile(env *cel.Env, text string) (expression, *Error) {
	ast, issues := env.Parse(text)
	if issues.Err() != nil {
		return expression{}, firstIssue(issues)
	}
	if p := forbidden(ast.NativeRep()); p != nil {
		return expression{}, p
	}
	if ast, issues = env.Check(ast); issues.Err() != nil {
		return expression{}, firstIssue(issues)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return expression{}, &Error{Problem: fmt.Sprintf("is a condition of type %v, not bool", ast.OutputType())}
	}
	program, err := env.Program(ast, cel.CostLimit(evalCost), cel.CostTracking(ownCosts{}),
		cel.InterruptCheckFrequency(checkEvery), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return expression{}, &Error{Problem: brief(err.Error())}
	}
	return expression{program}, nil
}

// forbidden finds what must not be in a policy although CEL has it:
// floating-point numbers, the conversions that lead to them or around the
// types, and amounts and addresses that are wrong as written.
func forbidden(ast *celast.AST) *Error {
	at := func(e celast.Expr, format string, args ...any) *Error {
		loc := ast.SourceInfo().GetStartLocation(e.ID())
		return &Error{Line: loc.Line(), Column: loc.Column() + 1, Problem: fmt.Sprintf(format, args...)}
	}
	nodes := celast.MatchDescendants(celast.NavigateAST(ast), celast.AllMatcher())
	for _, e := range nodes {
		if e.Kind() != celast.CallKind {
			continue
		}
		if literal, kind := foreign(e.AsCall()); literal != nil {
			text := fmt.Sprint(literal.AsLiteral().Value())
			write := text
			if _, err := countersign.ParseAmount(text); kind == "amount" && err != nil {
				write = "…"
			}
			return at(literal, `%s is no %s: write %s("%s")`, cut(text, 40), kind, kind, cut(write, 40))
		}
	}
	for _, e := range nodes {
		switch e.Kind() {
		case celast.LiteralKind:
			if _, ok := e.AsLiteral().(types.Double); ok {
				return at(e, `holds a floating-point number, which is never exact: write amount("…")`)
			}
		case celast.CallKind:
			call := e.AsCall()
			switch name := call.FunctionName(); name {
			case "dyn", "double":
				return at(e, "calls %s, which a policy may not", name)
			case "amount", "address":
				if len(call.Args()) != 1 || call.Args()[0].Kind() != celast.LiteralKind {
					continue // the checker's to judge, or known only later
				}
				text, ok := call.Args()[0].AsLiteral().(types.String)
				if !ok {
					return at(e, `calls %s without quotes: write %s("…")`, name, name)
				}
				if name == "address" && text == "" {
					return at(e, "holds an empty address")
				}
				if _, err := countersign.ParseAmount(string(text)); name == "amount" && err != nil {
					return at(e, "%v", err)
				}
			}
		}
	}
	return nil
}

// foreign finds a number or a text that call compares with an amount or adds to it,
// or a text that it compares with an address. kind is what it should be.
func foreign(call celast.CallExpr) (literal celast.Expr, kind string) {
	args := call.Args()
	if len(args) != 2 {
		return nil, ""
	}
	switch call.FunctionName() {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.Equals, operators.NotEquals, operators.Add:
		for i, arg := range args {
			if arg.Kind() != celast.LiteralKind {
				continue
			}
			kind := kindOf(args[1-i])
			if _, text := arg.AsLiteral().(types.String); kind == "amount" || kind == "address" && text {
				return arg, kind
			}
		}
	case operators.In:
		if kindOf(args[0]) == "address" && args[1].Kind() == celast.ListKind {
			for _, entry := range args[1].AsList().Elements() {
				if entry.Kind() == celast.LiteralKind {
					return entry, "address"
				}
			}
		}
	}
	return nil, ""
}

// kindOf says whether e is an amount or an address, as far as its form shows it.
func kindOf(e celast.Expr) string {
	name := ""
	switch e.Kind() {
	case celast.IdentKind:
		name = e.AsIdent()
	case celast.CallKind:
		name = e.AsCall().FunctionName()
		if name == operators.Add {
			return kindOf(e.AsCall().Args()[0])
		}
	}
	if name == "amount" || name == "address" {
		return name
	}
	return ""
}

func firstIssue(issues *cel.Issues) *Error {
	e := issues.Errors()[0]
	return &Error{Line: e.Location.Line(), Column: e.Location.Column() + 1, Problem: brief(e.Message)}
}

// holds evaluates x. The error says what is wrong with the expression or its
// input, except where ctx has ended; then it wraps the context's.
func (x expression) holds(ctx context.Context, b *bindings) (bool, error) {
	out, _, err := x.program.ContextEval(ctx, b)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, errors.New(brief(err.Error()))
	}
	v, ok := out.(types.Bool)
	if !ok {
		return false, errors.New("gives no bool")
	}
	return bool(v), nil
}

// brief keeps one line of bounded length of a text that comes from a library.
func brief(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.ToValidUTF8(s, "?")
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "…"
	}
	return s
}
