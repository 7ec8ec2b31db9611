//! Sends bytes and open files over a Unix socket.
//!
//! First a head: the number of files and of bytes. Then the files, some with each message (a message carries at most 253
//! on Linux), then the bytes.

use std::{
    io::{Error, ErrorKind, IoSlice, IoSliceMut, Read as _, Result, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};

/// Files in one message.
const FILES_AT_ONCE: usize = 32;

/// More than a state with its unread lines has; a larger one is damaged.
const BYTES_AT_MOST: u64 = 1 << 30;

/// Sends a text and files.
pub(super) fn send(mut socket: &UnixStream, text: &str, files: &[BorrowedFd<'_>]) -> Result<()> {
    let count = u64::try_from(files.len()).map_err(Error::other)?;
    let bytes = u64::try_from(text.len()).map_err(Error::other)?;
    socket.write_all(&count.to_be_bytes())?;
    socket.write_all(&bytes.to_be_bytes())?;
    for files in files.chunks(FILES_AT_ONCE) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_AT_ONCE))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        if !message.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(Error::from(ErrorKind::OutOfMemory));
        }
        sendmsg(
            socket,
            &[IoSlice::new(b"f")],
            &mut message,
            SendFlags::empty(),
        )?;
    }
    socket.write_all(text.as_bytes())
}

/// Receives what [`send`] sent.
pub(super) fn receive(mut socket: &UnixStream) -> Result<(String, Vec<OwnedFd>)> {
    let mut number = || {
        let mut bytes = [0; 8];
        socket.read_exact(&mut bytes)?;
        Ok::<u64, Error>(u64::from_be_bytes(bytes))
    };
    let (count, bytes) = (number()?, number()?);
    if bytes > BYTES_AT_MOST {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    let mut files = Vec::new();
    while u64::try_from(files.len()).map_err(Error::other)? < count {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_AT_ONCE))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut message,
            RecvFlags::empty(),
        )?;
        let before = files.len();
        for part in message.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = part {
                files.extend(received);
            }
        }
        // For example because this process may open no more files.
        if received.bytes == 0 || files.len() == before {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                "not all files arrived",
            ));
        }
    }
    for file in &files {
        fcntl_setfd(file, FdFlags::CLOEXEC)?;
    }
    let mut text = String::new();
    socket.take(bytes).read_to_string(&mut text)?;
    if u64::try_from(text.len()).map_err(Error::other)? < bytes {
        return Err(Error::from(ErrorKind::UnexpectedEof));
    }
    Ok((text, files))
}

#[cfg(test)]
mod tests {
    use std::{io::Seek as _, os::fd::AsFd as _};

    use super::*;

    #[test]
    fn many_files_and_a_long_text_arrive_in_order() {
        let (here, there) = UnixStream::pair().unwrap();
        let files: Vec<std::fs::File> = (0..100)
            .map(|number| {
                let mut file = tempfile::tempfile().unwrap();
                write!(file, "{number}").unwrap();
                file.rewind().unwrap();
                file
            })
            .collect();
        let text = "steps ".repeat(200_000);
        let sent = text.clone();
        let sender = std::thread::spawn(move || {
            let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
            send(&here, &sent, &files).unwrap();
        });
        let (received, files) = receive(&there).unwrap();
        sender.join().unwrap();
        assert_eq!(received, text);
        let numbers: Vec<String> = files
            .into_iter()
            .map(|file| std::io::read_to_string(std::fs::File::from(file)).unwrap())
            .collect();
        let expected: Vec<String> = (0..100).map(|number: u32| number.to_string()).collect();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn a_sender_that_dies_is_an_error() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&2u64.to_be_bytes()).unwrap();
        here.write_all(&5u64.to_be_bytes()).unwrap();
        drop(here);
        assert!(receive(&there).is_err());
    }
}
