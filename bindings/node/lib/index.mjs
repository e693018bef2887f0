import windrow from './index.js';

// Types, too: what `export *` does not bring along from a CommonJS module.
/** @typedef {import('./index.js').LoadOptions} LoadOptions */
/** @typedef {import('./index.js').EncodeOptions} EncodeOptions */
/** @typedef {import('./index.js').DecodeOptions} DecodeOptions */
/** @typedef {import('./index.js').SignalOptions} SignalOptions */
/** @typedef {import('./index.js').Ragged} Ragged */
/** @typedef {import('./index.js').Batch} Batch */
/** @typedef {import('./index.js').IdsLike} IdsLike */
/** @typedef {import('./index.js').CountTokensOptions} CountTokensOptions */
/** @typedef {import('./index.js').EncodingsOptions} EncodingsOptions */
/** @typedef {import('./index.js').Encodings} Encodings */
/** @typedef {import('./index.js').ChatOptions} ChatOptions */
/** @typedef {import('./index.js').Message} Message */
/** @typedef {import('./index.js').CountOptions} CountOptions */
/** @typedef {import('./index.js').Counts} Counts */
/** @typedef {import('./index.js').EncodeFilesOptions} EncodeFilesOptions */
/** @typedef {import('./index.js').Progress} Progress */
/** @typedef {import('./index.js').Summary} Summary */

export {
  DecodeStream,
  FileError,
  InputError,
  ItemError,
  Tokenizer,
  TokenizerError,
  WindrowError,
  countFiles,
  encodeFiles,
  version,
} from './index.js';
export default windrow;
