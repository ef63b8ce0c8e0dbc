//! Decompression, chosen by magic number.

use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The most memory of an xz stream, in bytes: four times the need of `xz -9`.
#[cfg(feature = "compression")]
const XZ_MEMORY: u64 = 256 << 20;
/// The largest zstd window, as a power of two: the default limit of `zstd --long`.
#[cfg(feature = "compression")]
const ZSTD_WINDOW_LOG: u32 = 27;
/// The number of bytes read at a time from the compressed file.
const CHUNK: usize = 128 << 10;
/// The longest magic number, in bytes.
const MAGIC: usize = 6;

/// A stream of bytes and the name of its original compression.
pub(crate) struct Plain {
    pub(crate) read: Box<dyn Read + Send>,
    pub(crate) codec: Option<&'static str>,
}

/// `raw`, decompressed if it is gzip (any number of members), zstd (frames), xz (streams) or bzip2 (streams).
pub(crate) fn decompress(mut raw: Box<dyn Read + Send>) -> io::Result<Plain> {
    let mut magic = Vec::with_capacity(MAGIC);
    raw.by_ref().take(MAGIC as u64).read_to_end(&mut magic)?;
    let codec = codec(&magic);
    let whole = Cursor::new(magic).chain(raw);
    let Some(codec) = codec else {
        return Ok(Plain { read: Box::new(whole), codec: None });
    };
    Ok(Plain { read: decoder(codec, BufReader::with_capacity(CHUNK, whole))?, codec: Some(codec) })
}

#[cfg(feature = "compression")]
fn decoder(codec: &str, compressed: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(match codec {
        "gzip" => Box::new(flate2::bufread::MultiGzDecoder::new(compressed)),
        "zstd" => {
            let mut decoder = zstd::Decoder::with_buffer(compressed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        "xz" => {
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(compressed, stream))
        }
        _ => Box::new(bzip2::bufread::MultiBzDecoder::new(compressed)),
    })
}

#[cfg(not(feature = "compression"))]
fn decoder(codec: &str, _: impl BufRead) -> io::Result<Box<dyn Read + Send>> {
    let message =
        format!("this build cannot read {codec}: build it with the feature compression, or decompress the trace");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn codec(magic: &[u8]) -> Option<&'static str> {
    match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        // A skippable frame may come first (pzstd writes one).
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some("xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some("bzip2"),
        _ => None,
    }
}
