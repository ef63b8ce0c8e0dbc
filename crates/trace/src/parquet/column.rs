use std::borrow::Cow;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, LargeStringArray, PrimitiveArray, StringArray, StringViewArray,
    types::{Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type},
};
use arrow_schema::DataType;

/// Whether [`numbers`] can read the type.
pub(super) fn is_number(kind: &DataType) -> bool {
    use DataType::{Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(kind, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float64)
}

/// The values of a column as unsigned numbers, each multiplied by `scale`; borrowed if the file has exactly these. The
/// error is the row within the array, and the problem.
pub(super) fn numbers(array: &ArrayRef, scale: u64) -> Result<Cow<'_, [u64]>, (usize, String)> {
    no_nulls(array)?;
    match array.data_type() {
        DataType::UInt64 if scale == 1 => Ok(Cow::Borrowed(primitive::<UInt64Type>(array).values())),
        DataType::UInt64 => convert::<UInt64Type>(array, scale, Some),
        DataType::UInt32 => convert::<UInt32Type>(array, scale, |v| Some(v.into())),
        DataType::UInt16 => convert::<UInt16Type>(array, scale, |v| Some(v.into())),
        DataType::UInt8 => convert::<UInt8Type>(array, scale, |v| Some(v.into())),
        DataType::Int64 => convert::<Int64Type>(array, scale, |v| v.try_into().ok()),
        DataType::Int32 => convert::<Int32Type>(array, scale, |v| v.try_into().ok()),
        DataType::Int16 => convert::<Int16Type>(array, scale, |v| v.try_into().ok()),
        DataType::Int8 => convert::<Int8Type>(array, scale, |v| v.try_into().ok()),
        DataType::Float64 => fractions(primitive::<Float64Type>(array).values(), scale),
        other => Err((0, format!("has type {other}, expected whole numbers"))),
    }
}

/// Whether [`words`] can read the type.
pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The values of a column of words; `None` if it has no words.
pub(super) fn words(array: &ArrayRef) -> Result<Option<Vec<&str>>, (usize, String)> {
    no_nulls(array)?;
    let any = array.as_any();
    if let Some(words) = any.downcast_ref::<StringArray>() {
        return Ok(Some(words.iter().flatten().collect()));
    }
    if let Some(words) = any.downcast_ref::<LargeStringArray>() {
        return Ok(Some(words.iter().flatten().collect()));
    }
    Ok(any.downcast_ref::<StringViewArray>().map(|words| words.iter().flatten().collect()))
}

fn no_nulls(array: &ArrayRef) -> Result<(), (usize, String)> {
    if array.null_count() == 0 {
        return Ok(());
    }
    let row = (0..array.len()).find(|&row| array.is_null(row)).unwrap_or(0);
    Err((row, "is null, expected a value in every row".to_owned()))
}

fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> &PrimitiveArray<T> {
    array.as_any().downcast_ref().expect("the data type was matched")
}

fn convert<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    scale: u64,
    widen: impl Fn(T::Native) -> Option<u64>,
) -> Result<Cow<'_, [u64]>, (usize, String)> {
    let mut values = Vec::with_capacity(array.len());
    for (row, &value) in primitive::<T>(array).values().iter().enumerate() {
        let scaled = widen(value).and_then(|value| value.checked_mul(scale));
        values.push(
            scaled.ok_or_else(|| (row, format!("is {value:?}, expected a number from 0 to {}", u64::MAX / scale)))?,
        );
    }
    Ok(Cow::Owned(values))
}

/// Times in fractions of a second, as in data frames.
fn fractions(values: &[f64], scale: u64) -> Result<Cow<'_, [u64]>, (usize, String)> {
    let mut scaled = Vec::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let product = (value * scale as f64).round();
        // The upper end excludes 2^64 itself, which `as` would saturate.
        if !(0.0..u64::MAX as f64).contains(&product) {
            return Err((row, format!("is {value}, expected a number from 0 to {}", u64::MAX / scale)));
        }
        scaled.push(product as u64);
    }
    Ok(Cow::Owned(scaled))
}
