//! A row and the job it caused, in one SQLite transaction: no order without its mail, and no mail without its order.

use asynq_runtime::{
    prelude::*,
    rusqlite::{Connection, TransactionBehavior::Immediate},
};

/// Tells a customer that the order has come in.
#[job(queue = "mails")]
async fn confirm(order: i64, to: String) -> JobResult {
    println!("to {to}: we have your order {order}");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // The shop's own file. The tasks lie beside its tables, in tables called `asynq_…`.
    let server = Server::builder("sqlite://shop.db?shared=1").queue("mails", 1).build().await?;
    let running = server.start().await?;
    let client = running.client();

    let mut shop = Connection::open("shop.db")?;
    shop.execute_batch("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, customer TEXT, cents INTEGER)")?;
    client.attach(&shop)?;
    for (customer, cents) in [("ann@example.com", 1_250), ("bob@example.com", 999_999), ("eve@example.com", 990)] {
        match order(&mut shop, &client, customer, cents) {
            Ok(id) => println!("accepted: order {id} of {customer}"),
            Err(error) => println!("refused: order of {customer}, {error}"),
        }
    }

    running.drained().await?;
    running.shutdown().await?;
    let orders: i64 = shop.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    println!("orders: {orders}");
    Ok(())
}

fn order(shop: &mut Connection, client: &Client, customer: &str, cents: i64) -> Result<i64, BoxError> {
    // IMMEDIATE locks at once: a transaction that begins by reading may find, when it writes, that another writer was faster.
    let tx = shop.transaction_with_behavior(Immediate)?;
    tx.execute("INSERT INTO orders(customer, cents) VALUES (?1, ?2)", (customer, cents))?;
    let id = tx.last_insert_rowid();
    client.enqueue_in_tx(&tx, confirm::job(id, customer))?;
    if cents > 100_000 {
        // The transaction is rolled back where it is dropped: neither the row nor the task exists.
        return Err("that is too much for one card".into());
    }
    tx.commit()?;
    // Workers would find the task within a tenth of a second; `wake` makes them look at once.
    client.wake();
    Ok(id)
}
