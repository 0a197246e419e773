package policy

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"countersign"
)

// The types that policy expressions have beside those of CEL. None of them
// compares with a text or a number of CEL: an expression that tries does not
// compile.
var (
	amountType  = cel.OpaqueType("Amount").WithTraits(traits.AdderType | traits.ComparerType)
	addressType = cel.OpaqueType("Address")
)

// amountLibrary gives expressions exact amounts and addresses: how they are
// written, compared and added.
func amountLibrary() []cel.EnvOption {
	opts := []cel.EnvOption{
		cel.Function("amount", cel.Overload("amount_string", []*cel.Type{cel.StringType}, amountType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				a, err := countersign.ParseAmount(string(v.(types.String)))
				if err != nil {
					return types.WrapErr(err)
				}
				return amountValue{a}
			}))),
		cel.Function("address", cel.Overload("address_string", []*cel.Type{cel.StringType}, addressType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				if v.(types.String) == "" {
					return types.NewErr("address is empty")
				}
				return addressValue(v.(types.String))
			}))),
		// CEL dispatches operators on the methods of the left value, so that
		// only their types need to be declared.
		cel.Function(operators.Add, cel.Overload("add_amount", []*cel.Type{amountType, amountType}, amountType)),
	}
	for op, name := range map[string]string{
		operators.Less: "less", operators.LessEquals: "less_equals",
		operators.Greater: "greater", operators.GreaterEquals: "greater_equals",
	} {
		opts = append(opts, cel.Function(op,
			cel.Overload(name+"_amount", []*cel.Type{amountType, amountType}, cel.BoolType)))
	}
	return opts
}

// amountCost is what a call on amounts counts for in evalCost, from measuring
// sums of 76 digits beside CEL's own operations. It leaves a condition 500 calls.
var amountCost uint64 = 40

// ownCosts implements CEL's estimator of what calls cost.
type ownCosts struct{}

// CallCost implements cost.ActualCostEstimator; nil leaves it to CEL.
func (ownCosts) CallCost(_, _ string, args []ref.Val, result ref.Val) *uint64 {
	if _, ok := result.(amountValue); ok {
		return &amountCost
	}
	if len(args) > 0 {
		if _, ok := args[0].(amountValue); ok {
			return &amountCost
		}
	}
	return nil
}

// amountValue is a countersign.Amount in an expression.
type amountValue struct{ amount countersign.Amount }

func (v amountValue) Type() ref.Type { return amountType }
func (v amountValue) Value() any     { return v.amount }

// Equal compares by value: amount("2.50") == amount("2.5").
func (v amountValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(amountValue)
	return types.Bool(ok && v.amount.Equal(o.amount))
}

// Compare implements traits.Comparer.
func (v amountValue) Compare(other ref.Val) ref.Val {
	o, ok := other.(amountValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Int(v.amount.Cmp(o.amount))
}

// Add implements traits.Adder. A sum with too many digits is an error, which
// denies.
func (v amountValue) Add(other ref.Val) ref.Val {
	o, ok := other.(amountValue)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	sum, err := v.amount.Add(o.amount)
	if err != nil {
		return types.WrapErr(err)
	}
	return amountValue{sum}
}

func (v amountValue) ConvertToNative(t reflect.Type) (any, error) { return nil, noNative("Amount", t) }
func (v amountValue) ConvertToType(t ref.Type) ref.Val            { return convertOwn(v, amountType, t) }

// addressValue is an address in an expression.
type addressValue string

func (v addressValue) Type() ref.Type { return addressType }
func (v addressValue) Value() any     { return string(v) }

// Equal compares addressKey. Addresses are not texts here, because an EVM
// address has many spellings and a comparison of texts would match only one of
// them.
func (v addressValue) Equal(other ref.Val) ref.Val {
	o, ok := other.(addressValue)
	return types.Bool(ok && addressKey(string(v)) == addressKey(string(o)))
}

func (v addressValue) ConvertToNative(t reflect.Type) (any, error) {
	return nil, noNative("Address", t)
}
func (v addressValue) ConvertToType(t ref.Type) ref.Val { return convertOwn(v, addressType, t) }

func noNative(name string, t reflect.Type) error {
	return fmt.Errorf("%s does not convert to %v", name, t)
}

func convertOwn(v ref.Val, own *types.Type, want ref.Type) ref.Val {
	switch want.TypeName() {
	case own.TypeName():
		return v
	case types.TypeType.TypeName():
		return own
	}
	return types.NewErr("%s does not convert to %s", own.TypeName(), want.TypeName())
}
