package admin

import (
	"encoding/json"

	"countersign/internal/jsonapi"
)

const (
	title       = "countersign service API"
	description = "Tells merchants of deposits, asks them to countersign withdrawals, and gives at most one permit to execute each. Errors are problem details (RFC 9457) that name the member at fault."
	tokenUse    = "a token of this service; its role must be the route's x-role or above"
)

func (s *Server) openapi(*jsonapi.Call, jsonapi.None, jsonapi.None) (json.RawMessage, error) {
	return s.api.Document(), nil
}
