package client

// AlarmState is what AlarmFilter selects by.
type AlarmState string

// The states of an alarm. It is open until a person acknowledges it.
const (
	AlarmOpen  AlarmState = "open"
	AlarmAcked AlarmState = "acked"
)

// AlarmFilter selects alarms of either end. Empty members select all.
type AlarmFilter struct {
	Kind  string // a ServiceAlarmKind or a GatewayAlarmKind
	State AlarmState
}

// Ack acknowledges an alarm.
type Ack struct {
	Name string `json:"name,omitempty" minLength:"1" maxLength:"200" doc:"name of the person who looked into it, 1 to 200 characters; absent: the token's name"`
	Note string `json:"note,omitempty" minLength:"1" maxLength:"1000" doc:"what was found or done, 1 to 1,000 characters; absent: nothing is noted"`
}
