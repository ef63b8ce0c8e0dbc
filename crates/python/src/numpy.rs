//! Columns in the memory of other objects, such as arrays of NumPy, and columns for such objects to look at.

use std::{ptr::NonNull, sync::Arc};

use arrow_array::{
    Array, ArrayRef, PrimitiveArray,
    cast::AsArray,
    types::{
        ArrowPrimitiveType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use pyo3::{
    buffer::{Element, PyUntypedBuffer},
    prelude::*,
    types::PyDict,
};

use crate::error::input;

/// A column that looks at the memory of an object with Python's buffer protocol, which lives as long as the column does.
/// Numbers of 1 to 8 bytes, contiguous, in this machine's byte order.
pub(crate) fn column(name: &str, object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let wrong =
        |what: &str| input(format!("{name}: {what}: give a contiguous array of whole numbers in one dimension"));
    let buffer = PyUntypedBuffer::get(object).map_err(|_| wrong("no array"))?;
    if buffer.dimensions() != 1 {
        return Err(wrong("has several dimensions"));
    }
    if !buffer.is_c_contiguous() {
        return Err(wrong("is not contiguous"));
    }
    macro_rules! typed {
        ($buffer:expr, $($Arrow:ty),*) => {{
            let mut buffer = $buffer;
            $(buffer = match typed::<$Arrow>(buffer) {
                Ok(column) => return Ok(column),
                Err(buffer) => buffer,
            };)*
            buffer
        }};
    }
    let rest = typed!(
        buffer,
        UInt64Type,
        Int64Type,
        UInt8Type,
        UInt32Type,
        Int32Type,
        Float64Type,
        UInt16Type,
        Int16Type,
        Int8Type
    );
    Err(wrong(&format!("has elements of the format {}", rest.format().to_string_lossy())))
}

/// The column if the buffer has elements of this type, otherwise the buffer.
fn typed<T: ArrowPrimitiveType>(buffer: PyUntypedBuffer) -> Result<ArrayRef, PyUntypedBuffer>
where
    T::Native: Element,
{
    if buffer.as_typed::<T::Native>().is_err() {
        return Err(buffer);
    }
    let (start, bytes, items) = (buffer.buf_ptr(), buffer.len_bytes(), buffer.item_count());
    let values = match NonNull::new(start.cast::<u8>()) {
        // SAFETY: the buffer is contiguous, its memory is valid and stays in its place until the buffer is released, and the
        // column owns the buffer. Elements of this type are aligned, or `as_typed` would have failed.
        Some(start) if bytes > 0 => unsafe { Buffer::from_custom_allocation(start, bytes, Arc::new(Kept(buffer))) },
        _ => Buffer::from_vec(Vec::<T::Native>::new()),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(values, 0, items), None)))
}

/// Keeps the memory of an array.
struct Kept(#[allow(dead_code, reason = "it is kept until the column is dropped")] PyUntypedBuffer);

impl std::panic::RefUnwindSafe for Kept {}

/// A column for NumPy, which looks at its memory (`numpy.asarray`).
#[pyclass(frozen, module = "peryton._native")]
pub(crate) struct Column(pub(crate) ArrayRef);

#[pymethods]
impl Column {
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (kind, start) = match self.0.data_type() {
            DataType::UInt64 => ("<u8", start::<UInt64Type>(&self.0)),
            DataType::UInt32 => ("<u4", start::<UInt32Type>(&self.0)),
            DataType::UInt8 => ("|u1", start::<UInt8Type>(&self.0)),
            other => return Err(input(format!("a column of {other} is none of a trace"))),
        };
        let about = PyDict::new(py);
        about.set_item("version", 3)?;
        about.set_item("shape", (self.0.len(),))?;
        about.set_item("typestr", kind)?;
        // NumPy may only read it.
        about.set_item("data", (start, true))?;
        Ok(about)
    }
}

fn start<T: ArrowPrimitiveType>(array: &ArrayRef) -> usize {
    array.as_primitive::<T>().values().as_ptr() as usize
}
