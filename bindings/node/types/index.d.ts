export type LoadOptions = import("./tokenizer.js").LoadOptions;
export type EncodeOptions = import("./tokenizer.js").EncodeOptions;
export type DecodeOptions = import("./tokenizer.js").DecodeOptions;
export type SignalOptions = import("./tokenizer.js").SignalOptions;
export type Ragged = import("./tokenizer.js").Ragged;
export type Batch = import("./tokenizer.js").Batch;
export type IdsLike = import("./tokenizer.js").IdsLike;
export type EncodeFilesOptions = import("./files.js").EncodeFilesOptions;
export type Progress = import("./files.js").Progress;
export type Summary = import("./files.js").Summary;
import { FileError } from "./errors.js";
import { InputError } from "./errors.js";
import { ItemError } from "./errors.js";
import { Tokenizer } from "./tokenizer.js";
import { TokenizerError } from "./errors.js";
import { WindrowError } from "./errors.js";
import { encodeFiles } from "./files.js";
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
export const version: string;
export { FileError, InputError, ItemError, Tokenizer, TokenizerError, WindrowError, encodeFiles };
