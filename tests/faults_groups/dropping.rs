//! F108: the last handle of a log is dropped where nobody expects it: in a callback, in a task, on the log's own thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};

use thalweg::testing::Disk;
use thalweg::{BoxError, Consumer, Log, Maintenance, Rebalance, RebalanceListener, TopicPartition};

use super::{NOW, SECOND, in_time, make};

pub(super) fn open(disk: &Disk) -> Log {
    let every = SECOND;
    let background = Log::builder().maintenance(Maintenance::Background { every });
    background.open_on(disk).unwrap()
}

/// Drops what it holds in the callback of this name.
struct Dropping {
    callback: &'static str,
    held: Option<(Log, Consumer)>,
}

impl Dropping {
    fn called(&mut self, callback: &str) {
        if callback == self.callback {
            self.held = None;
        }
    }
}

impl RebalanceListener for Dropping {
    fn assigned(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("assigned");
        Ok(())
    }

    fn revoked(&mut self, _: &mut Rebalance<'_>, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("revoked");
        Ok(())
    }

    fn lost(&mut self, _: &[TopicPartition]) -> Result<(), BoxError> {
        self.called("lost");
        Ok(())
    }
}

#[test]
fn f108_a_listener_may_drop_the_last_handles_that_the_user_has() {
    for callback in ["assigned", "revoked", "lost"] {
        in_time(callback, move || {
            let disk = Disk::new();
            let log = open(&disk);
            make(&log, "t", 2, 2);
            let other = log.group("g").subscribe(["t"]).join().unwrap();
            let held = Some((log.clone(), other));
            let builder = log.group("g").subscribe(["t"]);
            let mut consumer = builder
                .listener(Dropping { callback, held })
                .join()
                .unwrap();
            let id = consumer.membership().member().to_owned();
            let _ = consumer.poll(NOW).unwrap();
            if callback == "lost" {
                log.group("g").remove_member(&id).unwrap();
            }
            drop(log);
            let _ = consumer.poll(NOW).unwrap();
            consumer.close().unwrap();
            // Nothing is left of it: the log is closed in order, and free for the next.
            let log = open(&disk);
            assert!(log.recovery().is_empty());
            log.close().unwrap();
        });
    }
}

#[test]
fn f108_the_last_consumer_may_be_dropped_within_the_close_of_another_one() {
    in_time("close", || {
        let disk = Disk::new();
        let log = open(&disk);
        make(&log, "t", 1, 2);
        let other = log.group("h").subscribe(["t"]).join().unwrap();
        let callback = "revoked";
        let held = Some((log.clone(), other));
        let builder = log.group("g").subscribe(["t"]);
        let mut consumer = builder
            .listener(Dropping { callback, held })
            .join()
            .unwrap();
        drop(log);
        assert_eq!(consumer.poll(NOW).unwrap().len(), 2);
        consumer.close().unwrap();
        let log = open(&disk);
        assert!(log.recovery().is_empty());
    });
}

/// A task that is given up as soon as it is woken, by whoever wakes it: an executor that runs tasks at once may do so.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    told: mpsc::Sender<Option<String>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let future = self.future.lock().unwrap().take();
        let thread = std::thread::current();
        let _ = self.told.send(thread.name().map(str::to_owned));
        drop(future);
        let _ = self.told.send(None); // it came back
    }
}

/// A task that owns a consumer and sleeps. It is the only one that has the log. Told are the thread that wakes it, and its end.
pub(super) fn asleep(mut consumer: Consumer) -> mpsc::Receiver<Option<String>> {
    let (told, tells) = mpsc::channel();
    let mut future: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(async move { consumer.ready().await });
    let task = Arc::new(Task {
        future: Mutex::new(None),
        told,
    });
    let waker = Waker::from(Arc::clone(&task));
    let slept = future.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(slept.is_pending());
    *task.future.lock().unwrap() = Some(future);
    tells
}

#[test]
fn f108_a_task_may_drop_the_last_handle_within_the_call_that_wakes_it() {
    in_time("task", || {
        let disk = Disk::new();
        let log = open(&disk);
        let topic = make(&log, "t", 1, 0);
        let mut consumer = log.group("g").subscribe(["t"]).join().unwrap();
        let _ = consumer.poll(NOW).unwrap();
        drop(log);
        let tells = asleep(consumer);
        let appended = topic.append(("", "x"));
        assert_eq!(tells.iter().take(2).count(), 2, "woken, and back");
        drop(topic);
        let log = open(&disk);
        let kept = log.topic("t").unwrap().partition(0).unwrap();
        assert_eq!(kept.entries(..).count() as u64, u64::from(appended.is_ok()));
    });
}
