import windrow from './index.js';

export { FileError, InputError, ItemError, Tokenizer, TokenizerError, WindrowError, encodeFiles, version } from './index.js';
export default windrow;
