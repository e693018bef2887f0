'use strict';

const { FileError, InputError, ItemError, TokenizerError, WindrowError } = require('./errors.js');
const { countFiles } = require('./count.js');
const { encodeFiles } = require('./files.js');
const native = require('./native.js');
const { DecodeStream } = require('./stream.js');
const { Tokenizer } = require('./tokenizer.js');

/** @typedef {import('./tokenizer.js').LoadOptions} LoadOptions */
/** @typedef {import('./tokenizer.js').EncodeOptions} EncodeOptions */
/** @typedef {import('./tokenizer.js').DecodeOptions} DecodeOptions */
/** @typedef {import('./tokenizer.js').SignalOptions} SignalOptions */
/** @typedef {import('./tokenizer.js').Ragged} Ragged */
/** @typedef {import('./tokenizer.js').Batch} Batch */
/** @typedef {import('./tokenizer.js').IdsLike} IdsLike */
/** @typedef {import('./tokenizer.js').CountTokensOptions} CountTokensOptions */
/** @typedef {import('./tokenizer.js').EncodingsOptions} EncodingsOptions */
/** @typedef {import('./tokenizer.js').Encodings} Encodings */
/** @typedef {import('./tokenizer.js').ChatOptions} ChatOptions */
/** @typedef {import('./tokenizer.js').Message} Message */
/** @typedef {import('./count.js').CountOptions} CountOptions */
/** @typedef {import('./count.js').Counts} Counts */
/** @typedef {import('./files.js').EncodeFilesOptions} EncodeFilesOptions */
/** @typedef {import('./files.js').Progress} Progress */
/** @typedef {import('./files.js').Summary} Summary */

/**
 * The version of this package.
 * @type {string}
 */
const version = native.version;

module.exports = { DecodeStream, FileError, InputError, ItemError, Tokenizer, TokenizerError, WindrowError, countFiles, encodeFiles, version };
