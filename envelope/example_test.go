package envelope_test

import (
	"fmt"

	"countersign/envelope"
)

// What a merchant does with the key and the body that a service gave it.
func ExampleOpen() {
	pair, _ := envelope.GenerateKey(1024) // the service's; 2048 bits outside examples
	body, _ := envelope.Seal(pair, envelope.PKCS1v15, []byte(`{"type":1}`))

	key, err := envelope.ParseKey([]byte(pair.PublicBase64()))
	if err != nil {
		fmt.Println(err)
	}
	inner, _, err := envelope.Unwrap(body) // bare Base64, a form, or JSON
	if err != nil {
		fmt.Println(err)
	}
	plaintext, err := envelope.Open(key, envelope.PKCS1v15, inner)
	fmt.Printf("%s %v\n", plaintext, err)
	// Output: {"type":1} <nil>
}

// The service holds the private part and the merchant the public part of one
// pair. The service seals a callback, the merchant opens it; the merchant seals its
// answer, the service opens that.
func Example() {
	service, err := envelope.GenerateKey(1024)
	if err != nil {
		fmt.Println(err)
		return
	}
	merchant, err := envelope.ParseKey([]byte(service.PublicBase64()))
	if err != nil {
		fmt.Println(err)
		return
	}

	body, _ := envelope.Seal(service, envelope.PKCS1v15, []byte(`{"type":1,"amount":"2.5"}`))
	callback, err := envelope.Open(merchant, envelope.PKCS1v15, body)
	fmt.Printf("merchant reads %s %v\n", callback, err)

	data, _ := envelope.Seal(merchant, envelope.PKCS1v15, []byte(`{"amount":"2.5"}`))
	answer, err := envelope.Open(service, envelope.PKCS1v15, data)
	fmt.Printf("service reads %s %v\n", answer, err)

	// Each end opens only what the other part sealed.
	_, err = envelope.Open(service, envelope.PKCS1v15, body)
	fmt.Println(err)
	// Output:
	// merchant reads {"type":1,"amount":"2.5"} <nil>
	// service reads {"amount":"2.5"} <nil>
	// body does not open
}

func ExampleUnwrap() {
	inner, form, err := envelope.Unwrap([]byte("data=QUJD%2BQ%3D%3D"))
	fmt.Println(string(inner), form, err)

	_, _, err = envelope.Unwrap([]byte("QUJD Q=="))
	fmt.Println(err)
	// Output:
	// QUJD+Q== form field <nil>
	// body: not standard Base64: there is a space at offset 4, where a form parser has replaced a +; read the raw body instead of the parsed form, or write + as %2B
}
