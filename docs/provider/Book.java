// Books a deposit and its row for the relay in one transaction; docs/provider/relay.md says how.
import java.sql.*;

public class Book {
	public static void main(String[] args) throws SQLException {
		String deposit = """
			{"merchant": "shop", "trackingId": "java-1", "tenantUserId": "65515",
			 "chainName": "ETH", "symbol": "WETH", "amount": "7.400",
			 "txId": "0xec7cc4df1ff542793053335700f18d59c3f870e1e4820a42d558c76db832bd14", "txIndex": 5,
			 "fromAddress": "0xef1c6e67703c7bd7107eed8303fbe6ec2554bf6b", "toAddress": "0x7054b0f980a7eb5b3a6b3446f3c947d80162775c",
			 "riskLevelFrom": 44, "riskLevelTo": 40}"""; // from your JSON library; an amount is BigDecimal.toPlainString()
		try (Connection core = DriverManager.getConnection(System.getenv("CORE_JDBC_URL"))) {
			core.setAutoCommit(false);
			try (PreparedStatement book = core.prepareStatement("INSERT INTO booked (tracking_id, amount) VALUES (?, 7.400)");
			     PreparedStatement tell = core.prepareStatement("INSERT INTO countersign_outbox (kind, body) VALUES ('deposit', ?::json)")) {
				book.setString(1, "java-1");
				book.executeUpdate();
				tell.setString(1, deposit);
				tell.executeUpdate();
			}
			core.commit();
		}
	}
}
