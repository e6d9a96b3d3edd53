//! Rows F97, F97b, F99 and F101: directories that are missing, half made, very many, or copied while in use.

#[path = "../common/logs.rs"]
mod logs;

mod copies;
mod first_append;
mod lost;
mod many;
