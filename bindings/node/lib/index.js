'use strict';

const { FileError, InputError, ItemError, TokenizerError, WindrowError } = require('./errors.js');
const { encodeFiles } = require('./files.js');
const native = require('./native.js');
const { Tokenizer } = require('./tokenizer.js');

/** @typedef {import('./tokenizer.js').LoadOptions} LoadOptions */
/** @typedef {import('./tokenizer.js').EncodeOptions} EncodeOptions */
/** @typedef {import('./tokenizer.js').DecodeOptions} DecodeOptions */
/** @typedef {import('./tokenizer.js').SignalOptions} SignalOptions */
/** @typedef {import('./tokenizer.js').Ragged} Ragged */
/** @typedef {import('./tokenizer.js').Batch} Batch */
/** @typedef {import('./tokenizer.js').IdsLike} IdsLike */
/** @typedef {import('./files.js').EncodeFilesOptions} EncodeFilesOptions */
/** @typedef {import('./files.js').Progress} Progress */
/** @typedef {import('./files.js').Summary} Summary */

/**
 * The version of this package.
 * @type {string}
 */
const version = native.version;

module.exports = { FileError, InputError, ItemError, Tokenizer, TokenizerError, WindrowError, encodeFiles, version };
