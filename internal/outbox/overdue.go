package outbox

// Alarms about work that is not done, beside merchants.AlarmOverdue.
const (
	// AlarmExhausted: callbacks were given up.
	AlarmExhausted = "exhausted"
	// AlarmBreakerOpen: a merchant was not reached for pace.BreakerStays.
	AlarmBreakerOpen = "breaker_open"
)
