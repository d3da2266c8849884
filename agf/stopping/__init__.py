"""Why a flow stops: reasons that training and prediction share. Read `drive` first."""
