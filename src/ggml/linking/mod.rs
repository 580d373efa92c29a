//! The dynamic linker's view of the process; nothing here calls ggml.
//!
//! [`loaded`] lists the objects of the process (the program and its libraries), and which of them have a ggml; [`calls`]
//! reads how calls of the allocator in them are bound. [`functions`] is the table of ggml's functions, [`original`] that of
//! ggml's own allocator, which lastuse replaces. [`owner`] and [`caller`] find the ggml that an object, or the code that
//! called lastuse, is bound to.
//!
//! The guard, which is another library, is compiled with [`loaded`] and [`caller`] too.

pub mod loaded;
pub mod functions;
pub mod original;
pub mod owner;
pub mod calls;
pub mod caller;
