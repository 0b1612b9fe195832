//! A blocking client of Redis that only writes commands and walks through replies.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

/// Bytes that one read asks for at least.
const CHUNK: usize = 64 * 1024;

/// A connection to Redis.
#[derive(Debug)]
pub(super) struct Resp {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    /// The end of the part of `input` that was read.
    at: usize,
}

impl Resp {
    /// Connects to `host:port`.
    ///
    /// # Errors
    ///
    /// No server listens there.
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, out: Vec::with_capacity(CHUNK), input: Vec::with_capacity(CHUNK), at: 0 })
    }

    /// Writes a whole command.
    pub(super) fn command(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// Sends a whole command, and hands each text of its reply to `each`.
    ///
    /// # Errors
    ///
    /// The errors of [`reply`](Self::reply).
    pub(super) fn call(&mut self, words: &[&[u8]], each: impl FnMut(&[u8])) -> io::Result<()> {
        self.command(words);
        self.send()?;
        self.reply(each)
    }

    /// Begins a command of `words` words; [`word`](Self::word) adds each.
    pub(super) fn begin(&mut self, words: usize) {
        self.header(b'*', words);
    }

    /// Adds the next word of the command.
    pub(super) fn word(&mut self, word: &[u8]) {
        self.header(b'$', word.len());
        self.out.extend_from_slice(word);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, number: usize) {
        self.out.push(kind);
        let mut digits = [0; 20];
        let (mut first, mut rest) = (digits.len(), number);
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[first..]);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Sends the commands that were written.
    ///
    /// # Errors
    ///
    /// The connection is gone.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Walks through one reply, and hands each of its texts to `each`.
    ///
    /// # Errors
    ///
    /// Redis answered with an error, or the connection is gone.
    pub(super) fn reply(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            let (kind, text) = (self.input[line.start], &self.input[line.start + 1..line.end]);
            match kind {
                b'*' => left += number(text)?.unwrap_or(0),
                b'$' => {
                    if let Some(length) = number(text)? {
                        let start = self.wait_for(length + 2)?;
                        self.at = start + length + 2;
                        each(&self.input[start..start + length]);
                    }
                }
                b':' | b'+' => {}
                _ => return Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
            }
        }
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        }
        Ok(())
    }

    /// Returns the range of the next line, without its end.
    fn line(&mut self) -> io::Result<std::ops::Range<usize>> {
        let mut searched = 0;
        loop {
            let rest = &self.input[self.at..];
            if let Some(found) = rest[searched..].iter().position(|byte| *byte == b'\r').map(|found| searched + found)
                && rest.len() > found + 1
            {
                let line = self.at..self.at + found;
                self.at += found + 2;
                return Ok(line);
            }
            searched = rest.len().saturating_sub(1);
            self.read()?;
        }
    }

    /// Waits until `bytes` bytes are here; returns where they begin.
    fn wait_for(&mut self, bytes: usize) -> io::Result<usize> {
        while self.input.len() - self.at < bytes {
            self.read()?;
        }
        Ok(self.at)
    }

    fn read(&mut self) -> io::Result<()> {
        let had = self.input.len();
        self.input.resize(had + CHUNK, 0);
        let got = self.stream.read(&mut self.input[had..])?;
        self.input.truncate(had + got);
        if got == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// Reads a length; -1 is none.
fn number(text: &[u8]) -> io::Result<Option<usize>> {
    let text = std::str::from_utf8(text).map_err(io::Error::other)?;
    if text == "-1" { Ok(None) } else { text.parse().map(Some).map_err(io::Error::other) }
}
