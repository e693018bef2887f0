export type LoadOptions = import("./tokenizer.js").LoadOptions;
export type EncodeOptions = import("./tokenizer.js").EncodeOptions;
export type DecodeOptions = import("./tokenizer.js").DecodeOptions;
export type SignalOptions = import("./tokenizer.js").SignalOptions;
export type Ragged = import("./tokenizer.js").Ragged;
export type Batch = import("./tokenizer.js").Batch;
export type IdsLike = import("./tokenizer.js").IdsLike;
export type CountTokensOptions = import("./tokenizer.js").CountTokensOptions;
export type EncodingsOptions = import("./tokenizer.js").EncodingsOptions;
export type Encodings = import("./tokenizer.js").Encodings;
export type ChatOptions = import("./tokenizer.js").ChatOptions;
export type Message = import("./tokenizer.js").Message;
export type CountOptions = import("./count.js").CountOptions;
export type Counts = import("./count.js").Counts;
export type EncodeFilesOptions = import("./files.js").EncodeFilesOptions;
export type Progress = import("./files.js").Progress;
export type Summary = import("./files.js").Summary;
import { DecodeStream } from "./stream.js";
import { FileError } from "./errors.js";
import { InputError } from "./errors.js";
import { ItemError } from "./errors.js";
import { Tokenizer } from "./tokenizer.js";
import { TokenizerError } from "./errors.js";
import { WindrowError } from "./errors.js";
import { countFiles } from "./count.js";
import { encodeFiles } from "./files.js";
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
export const version: string;
export { DecodeStream, FileError, InputError, ItemError, Tokenizer, TokenizerError, WindrowError, countFiles, encodeFiles };
