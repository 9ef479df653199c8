package contoken_test

import (
	"testing"

	"github.com/contoken/contoken"
	"github.com/contoken/contoken/redeemtest"
)

func TestMemoryRedeemStoreConforms(t *testing.T) {
	redeemtest.Run(t, func(*testing.T) contoken.RedeemStore { return contoken.NewMemoryRedeemStore(100_000) })
}
