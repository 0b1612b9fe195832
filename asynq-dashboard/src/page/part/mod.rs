//! Parts that several pages share.

pub(crate) mod button;
pub(crate) mod chart;
pub(crate) mod listing;
pub(crate) mod state;
pub(crate) mod tasks;
pub(crate) mod text;
