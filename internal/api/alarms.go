package api

import (
	"reflect"

	"countersign/internal/signed"
)

// SignedHeaders describes the headers of a signed message whose id says what it is
// about.
func SignedHeaders(id string) []Header {
	return []Header{
		{Name: signed.HeaderID, Text: "identifies the message, the same in every attempt: " + id},
		{Name: signed.HeaderTimestamp, Text: "when the attempt was made, in seconds since 1970 UTC"},
		{Name: signed.HeaderSignature, Text: "one or more signatures, separated by spaces: v1, and the Base64 of the HMAC-SHA256 of webhook-id, webhook-timestamp and the body, joined by points"},
	}
}

// AlarmPosted describes the message about an alarm, which both ends post.
func AlarmPosted(body reflect.Type) Webhook {
	return Webhook{Name: "alarm", ID: "postedAlarm", Tag: "alarms", Summary: "Tell a person's system of an alarm",
		Description: "Each alarm is told once, as it was raised. It is posted to --alarm-url, signed as Standard Webhooks 1.0 says, until an answer has a status 2xx. " +
			"The same message may come more than once, and messages come in any order; docs/runbook.md has the kinds.",
		Headers: SignedHeaders("service_alarm_ or gateway_alarm_ and the seq of the alarm"), Body: body}
}
