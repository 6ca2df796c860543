// Which part of the Unicode CLDR goes into the guest. Everything else falls back along the parent chain to `en`.

/** Locales with data of their own. Only those whose default calendar is Gregorian and whose default digits are 0 to 9. */
export const LOCALES = [
  ...["en", "en-001", "en-150", "en-AU", "en-CA", "en-GB", "en-IE", "en-IN", "en-NZ", "en-ZA", "en-SG", "en-HK"],
  ...["de", "de-AT", "de-CH", "fr", "fr-BE", "fr-CA", "fr-CH", "es", "es-419", "es-AR", "es-CL", "es-CO", "es-MX", "es-US"],
  ...["it", "it-CH", "pt", "pt-PT", "nl", "nl-BE", "ca", "sv", "da", "nb", "fi", "is", "et", "lv", "lt"],
  ...["pl", "cs", "sk", "sl", "hr", "hu", "ro", "bg", "el", "tr", "ru", "uk", "he"],
  ...["ja", "ko", "zh", "zh-Hant", "zh-Hant-HK", "id", "ms", "vi", "hi"],
];

/** Currencies with names; every other one has its code. */
export const CURRENCIES = (
  "AED ARS AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR ISK JPY KRW KWD MAD MXN MYR NGN NOK NZD " +
  "PEN PHP PKR PLN QAR RON RUB SAR SEK SGD THB TRY TWD UAH USD UYU VND XAF XOF ZAR"
).split(" ");

/** The simple units of ECMA-402, by their CLDR names (https://tc39.es/ecma402/#table-sanctioned-single-unit-identifiers). */
export const UNITS = (
  "area-acre digital-bit digital-byte temperature-celsius length-centimeter duration-day angle-degree " +
  "temperature-fahrenheit volume-fluid-ounce length-foot volume-gallon digital-gigabit digital-gigabyte mass-gram " +
  "area-hectare duration-hour length-inch digital-kilobit digital-kilobyte mass-kilogram length-kilometer volume-liter " +
  "digital-megabit digital-megabyte length-meter duration-microsecond length-mile length-mile-scandinavian " +
  "volume-milliliter length-millimeter duration-millisecond duration-minute duration-month duration-nanosecond mass-ounce " +
  "concentr-percent digital-petabyte mass-pound duration-second mass-stone digital-terabit digital-terabyte " +
  "temperature-fahrenheit duration-week length-yard duration-year speed-kilometer-per-hour speed-mile-per-hour " +
  "speed-meter-per-second consumption-liter-per-kilometer consumption-mile-per-gallon"
).split(" ");

/** Time zones by meaning ("metazones") with names; the others are written as an offset. */
export const METAZONES = (
  "Africa_Central Africa_Eastern Africa_Southern Africa_Western Alaska America_Central America_Eastern America_Mountain " +
  "America_Pacific Arabian Argentina Atlantic Australia_Central Australia_Eastern Australia_Western Brasilia Chile China " +
  "Colombia Europe_Central Europe_Eastern Europe_Western GMT Gulf Hawaii Hawaii_Aleutian Hong_Kong India Indochina " +
  "Indonesia_Western Israel Japan Korea Malaysia Moscow Newfoundland New_Zealand Pakistan Philippines Singapore Taipei"
).split(" ");
