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

// AlarmMessage is the type of a message about an alarm.
type AlarmMessage string

// MessageAlarmRaised: an alarm was raised.
const MessageAlarmRaised AlarmMessage = "alarm.raised"

// Values lists every type.
func (AlarmMessage) Values() []AlarmMessage { return []AlarmMessage{MessageAlarmRaised} }

// PostedServiceAlarm is the body of the message that a service posts to --alarm-url.
type PostedServiceAlarm struct {
	Type      AlarmMessage `json:"type" doc:"alarm.raised"`
	Timestamp Time         `json:"timestamp" doc:"when the alarm was raised"`
	Data      ServiceAlarm `json:"data" doc:"the alarm as it was raised"`
}

// PostedGatewayAlarm is the body of the message that a gateway posts to --alarm-url.
type PostedGatewayAlarm struct {
	Type      AlarmMessage `json:"type" doc:"alarm.raised"`
	Timestamp Time         `json:"timestamp" doc:"when the alarm was raised"`
	Data      GatewayAlarm `json:"data" doc:"the alarm as it was raised"`
}
