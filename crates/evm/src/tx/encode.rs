//! The bytes of a transaction from its fields.

use alloy_primitives::{Address, B256, U256};
use alloy_rlp::Encodable;

use super::{Authorization, CELO, CELO_OLD, DEPOSIT, TxFields, arbitrum};
use crate::rlp::{list, put_list};

/// Why a transaction has no bytes here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unencodable {
    /// Its type is of no chain that is known.
    UnknownType(u64),
    /// A field that its type has did not come.
    Missing(&'static str),
}

impl std::fmt::Display for Unencodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownType(kind) => write!(f, "unknown transaction type {kind:#x}"),
            Self::Missing(field) => write!(f, "a transaction without {field}"),
        }
    }
}

type Encoded = Result<Vec<u8>, Unencodable>;

/// A field that the type must have.
fn need<T: Copy>(field: Option<T>, name: &'static str) -> Result<T, Unencodable> {
    field.ok_or(Unencodable::Missing(name))
}

fn put_to(to: Option<Address>, out: &mut Vec<u8>) {
    match to {
        Some(to) => to.encode(out),
        None => out.push(alloy_rlp::EMPTY_STRING_CODE),
    }
}

impl TxFields<'_> {
    /// The number of its type.
    #[must_use]
    pub fn kind(&self) -> u64 {
        self.kind
    }

    /// Its bytes, as its hash and the transactions root are computed from them.
    ///
    /// # Errors
    /// Where its type is unknown or a field is missing.
    pub fn encode(&self) -> Encoded {
        let unknown = Unencodable::UnknownType(self.kind);
        let kind = u8::try_from(self.kind).map_err(|_| unknown)?;
        let fields = match kind {
            0 => return self.legacy(),
            1..=4 | CELO | CELO_OLD => self.signed(kind)?,
            DEPOSIT => self.deposit()?,
            arbitrum::DEPOSIT..=arbitrum::INTERNAL => self.of_arbitrum(kind, unknown)?,
            _ => return Err(unknown),
        };
        let mut out = Vec::with_capacity(fields.len() + 1);
        out.push(kind);
        out.extend_from_slice(&fields);
        Ok(out)
    }

    fn legacy(&self) -> Encoded {
        let (nonce, price) = (
            need(self.nonce, "nonce")?,
            need(self.gas_price, "gasPrice")?,
        );
        let (gas, value) = (need(self.gas, "gas")?, need(self.value, "value")?);
        let v = need(self.v, "v")?;
        let (r, s) = (need(self.r, "r")?, need(self.s, "s")?);
        let celo = self
            .celo
            .gateway_fee
            .filter(|_| self.celo.is_ethereum != Some(true));
        Ok(list(|out| {
            [nonce, price, gas]
                .iter()
                .for_each(|field| field.encode(out));
            if let Some(gateway_fee) = celo {
                put_to(self.celo.fee_currency, out);
                put_to(self.celo.gateway_recipient, out);
                gateway_fee.encode(out);
            }
            put_to(self.to, out);
            value.encode(out);
            self.put_input(out);
            [v, r, s].iter().for_each(|field| field.encode(out));
        }))
    }

    /// Types 1 to 4 and those of Celo: one grew out of the other.
    fn signed(&self, kind: u8) -> Encoded {
        let chain_id = need(self.chain_id, "chainId")?;
        let (nonce, gas) = (need(self.nonce, "nonce")?, need(self.gas, "gas")?);
        let value = need(self.value, "value")?;
        let fees = match kind {
            1 => vec![need(self.gas_price, "gasPrice")?],
            _ => vec![
                need(self.max_priority_fee, "maxPriorityFeePerGas")?,
                need(self.max_fee, "maxFeePerGas")?,
            ],
        };
        let blob_fee = match kind {
            3 => need(self.max_blob_fee, "maxFeePerBlobGas")?,
            _ => U256::ZERO,
        };
        let parity = need(self.y_parity.or(self.v), "yParity")?;
        let (r, s) = (need(self.r, "r")?, need(self.s, "s")?);
        Ok(list(|out| {
            [chain_id, nonce].iter().for_each(|field| field.encode(out));
            fees.iter().for_each(|fee| fee.encode(out));
            gas.encode(out);
            if kind == CELO_OLD {
                put_to(self.celo.fee_currency, out);
                put_to(self.celo.gateway_recipient, out);
                self.celo.gateway_fee.unwrap_or_default().encode(out);
            }
            put_to(self.to, out);
            value.encode(out);
            self.put_input(out);
            self.put_access_list(out);
            match kind {
                3 => {
                    blob_fee.encode(out);
                    put_hashes(&self.blob_hashes, out);
                }
                4 => put_authorizations(&self.authorizations, out),
                CELO => put_to(self.celo.fee_currency, out),
                _ => {}
            }
            [parity, r, s].iter().for_each(|field| field.encode(out));
        }))
    }

    fn put_input(&self, out: &mut Vec<u8>) {
        self.input.clone().unwrap_or_default().encode(out);
    }

    fn put_access_list(&self, out: &mut Vec<u8>) {
        let mut items = Vec::new();
        for item in &self.access_list {
            let mut fields = Vec::new();
            item.address.encode(&mut fields);
            put_hashes(&item.storage_keys, &mut fields);
            put_list(&fields, &mut items);
        }
        put_list(&items, out);
    }

    /// Three chains use one number: their fields tell them apart, and the root tells who is right.
    fn deposit(&self) -> Encoded {
        let (gas, value) = (need(self.gas, "gas")?, self.value.unwrap_or_default());
        if let Some(source) = self.source_hash {
            let from = need(self.from, "from")?;
            return Ok(list(|out| {
                source.encode(out);
                from.encode(out);
                put_to(self.to, out);
                self.mint.unwrap_or_default().encode(out);
                value.encode(out);
                gas.encode(out);
                self.is_system.unwrap_or_default().encode(out);
                self.put_input(out);
            }));
        }
        if let Some(index) = self.queue_index {
            let sender = need(self.sender.or(self.from), "sender")?;
            return Ok(list(|out| {
                index.encode(out);
                gas.encode(out);
                put_to(self.to, out);
                value.encode(out);
                self.put_input(out);
                sender.encode(out);
            }));
        }
        let chain_id = need(self.chain_id, "sourceHash, queueIndex or chainId")?;
        let (from, nonce) = (need(self.from, "from")?, need(self.nonce, "nonce")?);
        let price = need(self.gas_price, "gasPrice")?;
        Ok(list(|out| {
            chain_id.encode(out);
            from.encode(out);
            put_to(self.to, out);
            [nonce, gas, price]
                .iter()
                .for_each(|field| field.encode(out));
            self.put_input(out);
        }))
    }

    fn of_arbitrum(&self, kind: u8, unknown: Unencodable) -> Encoded {
        let chain_id = need(self.chain_id, "chainId")?;
        let more = &self.arbitrum;
        let from = || need(self.from, "from");
        let value = self.value.unwrap_or_default();
        let price = || need(self.max_fee.or(self.gas_price), "maxFeePerGas");
        let gas = || need(self.gas, "gas");
        let request = || need(more.request_id, "requestId");
        Ok(match kind {
            arbitrum::INTERNAL => list(|out| {
                chain_id.encode(out);
                self.put_input(out);
            }),
            arbitrum::DEPOSIT => {
                let (request, from) = (request()?, from()?);
                list(|out| {
                    chain_id.encode(out);
                    request.encode(out);
                    from.encode(out);
                    put_to(self.to, out);
                    value.encode(out);
                })
            }
            arbitrum::UNSIGNED | arbitrum::CONTRACT | arbitrum::RETRY => {
                let nonce = need(self.nonce, "nonce")?;
                let (from, price, gas) = (from()?, price()?, gas()?);
                let request = match kind {
                    arbitrum::CONTRACT => Some(request()?),
                    _ => None,
                };
                let retry = match kind {
                    arbitrum::RETRY => Some((
                        need(more.ticket_id, "ticketId")?,
                        need(more.refund_to, "refundTo")?,
                        need(more.max_refund, "maxRefund")?,
                        need(more.submission_fee_refund, "submissionFeeRefund")?,
                    )),
                    _ => None,
                };
                list(|out| {
                    chain_id.encode(out);
                    match (kind, request) {
                        (arbitrum::CONTRACT, Some(request)) => {
                            request.encode(out);
                            from.encode(out);
                        }
                        (arbitrum::RETRY, _) => {
                            nonce.encode(out);
                            from.encode(out);
                        }
                        _ => {
                            from.encode(out);
                            nonce.encode(out);
                        }
                    }
                    price.encode(out);
                    gas.encode(out);
                    put_to(self.to, out);
                    value.encode(out);
                    self.put_input(out);
                    if let Some((ticket, refund_to, max_refund, fee_refund)) = retry {
                        ticket.encode(out);
                        refund_to.encode(out);
                        max_refund.encode(out);
                        fee_refund.encode(out);
                    }
                })
            }
            arbitrum::SUBMIT_RETRYABLE => self.submit_retryable(chain_id)?,
            _ => return Err(unknown),
        })
    }

    fn submit_retryable(&self, chain_id: U256) -> Encoded {
        let more = &self.arbitrum;
        let request = need(more.request_id, "requestId")?;
        let from = need(self.from, "from")?;
        let base_fee = need(more.l1_base_fee, "l1BaseFee")?;
        let deposit = need(more.deposit_value, "depositValue")?;
        let price = need(self.max_fee.or(self.gas_price), "maxFeePerGas")?;
        let gas = need(self.gas, "gas")?;
        let value = need(more.retry_value, "retryValue")?;
        let beneficiary = need(more.beneficiary, "beneficiary")?;
        let fee = need(more.max_submission_fee, "maxSubmissionFee")?;
        let refund_to = need(more.refund_to, "refundTo")?;
        Ok(list(|out| {
            chain_id.encode(out);
            request.encode(out);
            from.encode(out);
            [base_fee, deposit, price, gas]
                .iter()
                .for_each(|field| field.encode(out));
            put_to(more.retry_to, out);
            value.encode(out);
            beneficiary.encode(out);
            fee.encode(out);
            refund_to.encode(out);
            more.retry_data.clone().unwrap_or_default().encode(out);
        }))
    }
}

fn put_hashes(hashes: &[B256], out: &mut Vec<u8>) {
    let mut items = Vec::with_capacity(hashes.len() * 33);
    hashes.iter().for_each(|hash| hash.encode(&mut items));
    put_list(&items, out);
}

fn put_authorizations(all: &[Authorization], out: &mut Vec<u8>) {
    let mut items = Vec::new();
    for one in all {
        let mut fields = Vec::new();
        one.chain_id.0.encode(&mut fields);
        one.address.encode(&mut fields);
        one.nonce.0.encode(&mut fields);
        one.y_parity
            .or(one.v)
            .unwrap_or_default()
            .encode(&mut fields);
        one.r.0.encode(&mut fields);
        one.s.0.encode(&mut fields);
        put_list(&fields, &mut items);
    }
    put_list(&items, out);
}
