package db

import (
	"database/sql/driver"
	"fmt"
	"math"
	"reflect"
)

// driverValue gives an argument as one of the types that drivers take.
func driverValue(a any) (driver.Value, error) {
	switch a := a.(type) {
	case string, int64, float64, []byte, nil:
		return a, nil
	case int:
		return int64(a), nil
	}
	v := reflect.ValueOf(a)
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() <= math.MaxInt64 {
			return int64(v.Uint()), nil
		}
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return driverValue(v.Elem().Interface())
	}
	return nil, fmt.Errorf("no database takes a %T", a)
}

// assign puts what a driver gave into the variable that dest points to. Of what
// database/sql converts it converts nothing: the columns have the types that are
// asked for, and anything else is a mistake here.
func assign(dest any, v driver.Value) error {
	switch d := dest.(type) {
	case *string:
		if s, ok := v.(string); ok {
			*d = s
			return nil
		}
	case *int64:
		if n, ok := v.(int64); ok {
			*d = n
			return nil
		}
	case *Millis:
		if n, ok := v.(int64); ok {
			*d = Millis(n)
			return nil
		}
	case *int:
		if n, ok := v.(int64); ok {
			*d = int(n)
			return nil
		}
	case *float64:
		if f, ok := v.(float64); ok {
			*d = f
			return nil
		}
	case *[]byte:
		switch b := v.(type) {
		case []byte:
			*d = b // a copy already
			return nil
		case nil: // and a blob without bytes
			*d = nil
			return nil
		}
	}
	to := reflect.ValueOf(dest)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("%T is no place for a column", dest)
	}
	switch to = to.Elem(); {
	case to.Kind() == reflect.Pointer && v == nil:
		to.SetZero()
		return nil
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Interface(), v)
	}
	switch v := v.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return nil
		}
	case int64:
		if to.CanInt() && !to.OverflowInt(v) {
			to.SetInt(v)
			return nil
		}
		if to.CanFloat() {
			to.SetFloat(float64(v))
			return nil
		}
	}
	return fmt.Errorf("a %T does not fit into a %s", v, to.Type())
}
